--- corpus.lua FOLDER NUMBER: tokenizes texts and compares with the ids by spec/peer/corpus.py.
local tokenizers = require "flame.tokenizers"

local folder, base = arg[1], arg[1] .. "/" .. arg[2]
local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read "a"
end

local texts, bytes, at = {}, read(folder .. "/texts"), 1
while at <= #bytes do texts[#texts + 1], at = ("<s4"):unpack(bytes, at) end
local tok = tokenizers.load(base .. ".json")

-- CPU time of this process, so that other programs on the machine do not count.
local start, found = os.clock(), {}
for i, text in ipairs(texts) do found[i] = tok:encode(text, { special = false }) end
local encoded = os.clock() - start
start = os.clock()
for _, ids in ipairs(found) do tok:decode(ids, { skip_special = false }) end
local decoded = os.clock() - start

local expected, wrong = read(base .. ".ids"), 0
at = 1
for i, text in ipairs(texts) do
  local ids, decoding
  ids, decoding, at = ("<s4s4"):unpack(expected, at)
  local ours = found[i]:totable()
  local differs
  for k = 1, math.max(#ours, #ids // 4) do
    local theirs = k * 4 <= #ids and ("<i4"):unpack(ids, k * 4 - 3) or nil
    if theirs ~= ours[k] then
      differs = ("id %d is %s, %s in the library"):format(k, ours[k], theirs)
      local near = tok:decode({ table.unpack(ours, math.max(1, k - 3), k + 3) },
        { skip_special = false })
      differs = ("%s, near %s"):format(differs, near:gsub("[^%w%p ]+", function(other)
        return (other:gsub(utf8.charpattern, function(c)
          return utf8.len(c) and ("<%X>"):format(utf8.codepoint(c)) or "<?>"
        end))
      end))
      break
    end
  end
  if not differs and tok:decode(found[i], { skip_special = false }) ~= decoding then
    differs = "decoded otherwise"
  end
  if differs then
    wrong = wrong + 1
    if wrong <= 5 then print(("  document %d of %d bytes: %s"):format(i, #text, differs)) end
  end
end
print(("  flame %.1f MB/s, decoded at %.1f MB/s, %d of %d documents differ"):format(
  #bytes / encoded / 1e6, #bytes / decoded / 1e6, wrong, #texts))
os.exit(wrong == 0)
