--- calls.lua header FILE: a C header by which the C tests note each call of flame.h that they make.
--- calls.lua tell FILE…: checks the notes: each function must have been called correctly, with
--- wrong arguments, and, where it takes memory, with an allocation failing. See tools/abi/calls.
local mode = arg[1]

local functions = {}
for line in io.lines("tools/abi/list.txt") do
  local of, result, name, params = line:match("^FLAME_%S+ (%a+) ([^(]-)([%w_]+)%((.*)%)$")
  if of == "core" or of == "full" then
    functions[#functions + 1] = { name = name, result = result:gsub("%s+$", ""), params = params }
  end
end

--- Splits parameters, as "const int64_t *shape, void (*f)(void *a, int b)", at outer commas.
local function split(params)
  local list, depth, from = {}, 0, 1
  if params == "void" then return list end
  for i = 1, #params + 1 do
    local ch = params:sub(i, i)
    if ch == "(" then depth = depth + 1 elseif ch == ")" then depth = depth - 1 end
    if depth == 0 and (ch == "," or ch == "") then
      list[#list + 1] = params:sub(from, i - 1):match("^%s*(.-)%s*$")
      from = i + 1
    end
  end
  return list
end

local function name_of(param)
  return param:match("%(%*([%w_]+)%)") or param:gsub("%[.-%]", ""):match("([%w_]+)$")
end

-- C code of the header, which counts calls by outcome: correct, refused (see below), no memory.
local PRELUDE = [[
/* Written by tools/abi/calls.lua. */
#include "engine/engine.h"
#include <stdio.h>
#include <stdlib.h>
enum { SEE_CONTEXTS = 64, NO_MEMORY = 2 };
static struct { int64_t right, wrong, memory, takes; } see_count[%d];
static const char *const see_name[] = { %s };
static flame_context *see_context[SEE_CONTEXTS];
static int64_t see_calls[SEE_CONTEXTS];
static void see_mark(void) {
  for (int i = 0; i < SEE_CONTEXTS; i++)
    if (see_context[i]) see_calls[i] = see_context[i]->mem.calls;
}
static void see_add(flame_context *c) {
  int at = -1;
  if (!c) return;
  for (int i = SEE_CONTEXTS - 1; i >= 0; i--) {
    if (see_context[i] == c) return;
    if (!see_context[i]) at = i;
  }
  if (at >= 0) see_context[at] = c;
}
static void see_drop(const flame_context *c) {
  for (int i = 0; i < SEE_CONTEXTS; i++) if (see_context[i] == c) see_context[i] = NULL;
}
/* How one ended: did an allocation of any context fail in it? */
static void see_end(int id, int refused) {
  int took = 0, hit = 0;
  for (int i = 0; i < SEE_CONTEXTS; i++) {
    const flame_context *c = see_context[i];
    if (!c || c->mem.calls <= see_calls[i]) continue;
    took = 1;
    hit |= c->mem.fail_at > 0 && c->mem.calls >= c->mem.fail_at &&
           (see_calls[i] < c->mem.fail_at || c->mem.fail_forever);
  }
  see_count[id].takes += took;
  if (hit || refused == NO_MEMORY) see_count[id].memory++;
  else if (refused) see_count[id].wrong++;
  else see_count[id].right++;
}
static void see_write(void) {
  FILE *f = fopen(getenv("FLAME_CALLS"), "a");
  for (size_t i = 0; f && i < sizeof see_name / sizeof *see_name; i++)
    fprintf(f, "%%s %%lld %%lld %%lld %%lld\n", see_name[i], (long long)see_count[i].right,
            (long long)see_count[i].wrong, (long long)see_count[i].memory,
            (long long)see_count[i].takes);
  if (f) fclose(f);
}
__attribute__((constructor)) static void see_begin(void) { atexit(see_write); }
]]

-- C expressions: was the call refused? For functions whose result's type does not tell that.
local REFUSED = { flame_open = "!r_ ? NO_MEMORY : r_->err.code != 0", flame_fail = "r_ != code",
  flame_dtype_name = "!*r_", flame_dtype_size = "r_ == 0", flame_values_free = "!v" }

local function refused(f, params, names)
  if REFUSED[f.name] then return REFUSED[f.name] end
  local none = params[1] and params[1]:find("*", 1, true) and "!" .. names[1] or "0"
  if f.result == "void" then return none end
  local by = f.result:find("%*") and "!r_" or f.result == "flame_status" and "r_ != FLAME_OK"
    or "r_ < 0"
  return none .. " || " .. by
end

local function header(path)
  local names = {}
  for i, f in ipairs(functions) do names[i] = ('"%s"'):format(f.name) end
  local out = { PRELUDE:format(#functions, table.concat(names, ", ")) }
  for i, f in ipairs(functions) do
    local params, given = split(f.params), {}
    for k, p in ipairs(params) do given[k] = name_of(p) end
    local first = params[1] and params[1]:match("^flame_context %*") and given[1]
    local call = ("(%s)(%s)"):format(f.name, table.concat(given, ", "))
    local drops = f.name == "flame_close" and "see_drop(c); " or ""
    local void = f.result == "void"
    out[#out + 1] = ("static inline %s see_%s(%s) {"):format(f.result, f.name, f.params)
    out[#out + 1] = (first and f.name ~= "flame_interrupt" and f.name ~= "flame_close"
      and ("  see_add(%s);"):format(first) or "") .. "  see_mark();"
    if void then
      out[#out + 1] = ("  const int no_ = %s; %s%s; see_end(%d, no_); see_mark();"):format(
        refused(f, params, given), drops, call, i - 1)
    else
      local open = f.name == "flame_open" and " see_add(r_);" or ""
      out[#out + 1] = ("  %s%sr_ = %s;%s see_end(%d, %s); see_mark(); return r_;"):format(f.result,
        f.result:find("%*$") and "" or " ", call, open, i - 1, refused(f, params, given))
    end
    out[#out + 1] = ("}\n#define %s(...) see_%s(__VA_ARGS__)"):format(f.name, f.name)
  end
  local file <close> = assert(io.open(path, "w"))
  file:write(table.concat(out, "\n"), "\n")
end

local function tell(files)
  local sum, bad = {}, 0
  for _, name in ipairs(files) do
    for line in io.lines(name) do
      local f, right, wrong, memory, takes = line:match("^(%S+) (%d+) (%d+) (%d+) (%d+)$")
      local s = sum[f] or { 0, 0, 0, 0 }
      for i, v in ipairs { right, wrong, memory, takes } do s[i] = s[i] + v end
      sum[f] = s
    end
  end
  for _, f in ipairs(functions) do
    local s = sum[f.name] or { 0, 0, 0, 0 }
    local lacks = {}
    if s[1] == 0 then lacks[#lacks + 1] = "rightly" end
    if s[2] == 0 and f.params ~= "void" then lacks[#lacks + 1] = "with wrong arguments" end
    if s[3] == 0 and s[4] > 0 and f.result ~= "void" then lacks[#lacks + 1] = "without memory" end
    if #lacks > 0 then
      bad = bad + 1
      print(("%s is never called %s (%d right, %d wrong, %d without memory, %d take some)"):format(
        f.name, table.concat(lacks, ", "), s[1], s[2], s[3], s[4]))
    end
  end
  print(("calls: %d functions of flame.h, %d not tried"):format(#functions, bad))
  os.exit(bad == 0)
end

if mode == "header" then header(arg[2]) else tell { table.unpack(arg, 2) } end
