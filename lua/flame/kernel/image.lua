--- Reads a kernel's binary: the declarations in PTX text, and the .nv.info sections of a cubin,
--- which have only the sizes of parameters.
local unpack = string.unpack

local PTX_TYPES = { u64 = "void *", b64 = "void *", s64 = "long long", u32 = "unsigned int",
  b32 = "unsigned int", s32 = "int", f32 = "float", f64 = "double", u16 = "unsigned short",
  b16 = "unsigned short", s16 = "short", u8 = "unsigned char", b8 = "unsigned char",
  s8 = "signed char" }

-- The kernels that a PTX text declares: the list of entries, and entry -> list of parameter types.
local function ptx_entries(ptx)
  local order, params = {}, {}
  for name, list in ptx:gmatch("%.entry%s+([%w_$]+)%s*%(([^)]*)%)") do
    order[#order + 1] = name
    params[name] = {}
    for one in list:gmatch("%.param([^,]*)") do
      local kind, bytes = one:match("%.([usbf]%d+)"), one:match("%[(%d+)%]")
      params[name][#params[name] + 1] = bytes and ("struct" .. bytes) or PTX_TYPES[kind] or "int"
    end
  end
  for name in ptx:gmatch("%.entry%s+([%w_$]+)%s*{") do
    if not params[name] then order[#order + 1], params[name] = name, {} end
  end
  return order, params
end

local function holds(image, at, bytes) return at >= 0 and bytes >= 0 and at <= #image - bytes end

-- Calls f(name, offset, size, info) for each section of a cubin (an ELF file). Returns true if all
-- headers and names lie inside the image, nil as soon as one does not.
local function each_section(image, f)
  if #image < 64 then return end
  local shoff, shentsize = unpack("<I8", image, 41), unpack("<I2", image, 59)
  local shnum, shstrndx = unpack("<I2", image, 61), unpack("<I2", image, 63)
  local function section(i)
    local at = shoff + i * shentsize
    if not holds(image, at, math.max(shentsize, 48)) then return end
    local name, offset, size = unpack("<I4", image, at + 1), unpack("<I8I8", image, at + 25)
    return name, offset, size, (unpack("<I4", image, at + 45))
  end
  local _, names_at = section(shstrndx)
  for i = 0, shnum - 1 do
    local name, offset, size, info = section(i)
    if not name or not names_at or not holds(image, names_at + name, 1) then return end
    name = image:match("^(%Z*)%z", names_at + name + 1)
    if not name then return end
    f(name, offset, size, info)
  end
  return true
end

-- Calls f(attribute, position of its value, bytes) for each attribute of an .nv.info section.
-- Returns true if all of them lie inside the image, else nil.
local function each_attribute(image, offset, size, f)
  if not holds(image, offset, size) then return end
  local at, stop = offset + 1, offset + size
  while at + 3 <= stop do
    local format, attribute, n = unpack("<I1I1I2", image, at)
    at = at + 4
    if format == 4 then
      if at + n - 1 > stop then return end
      f(attribute, at, n)
      at = at + n
    end
  end
  return true
end

-- The kernels of a cubin: the list of entries, and entry -> list of parameter sizes in bytes, from
-- its .nv.info sections (EIATTR_KPARAM_INFO). nil if the image is damaged.
local function cubin_entries(image)
  local order, params, whole = {}, {}, true
  local read = each_section(image, function(name, offset, size)
    local entry = name:match("^%.nv%.info%.(.+)$")
    if not entry then return end
    local list = {}
    whole = whole and each_attribute(image, offset, size, function(attribute, at, n)
      if attribute ~= 0x17 or n ~= 12 then return end
      local _, ordinal, _, flags = unpack("<I4I2I2I4", image, at)
      list[ordinal + 1] = flags >> 18 & 0x3fff
    end)
    order[#order + 1], params[entry] = entry, list
  end)
  if read and whole then return order, params end
end

--- Registers and bytes of local memory per thread of an entry, from a cubin's .nv.info
-- (EIATTR_REGCOUNT, EIATTR_FRAME_SIZE); nil if the section does not say.
local function usage(image, entry)
  local symbol, registers, bytes
  each_section(image, function(name, _, _, info)
    if name == ".text." .. entry then symbol = info & 0xffffff end
  end)
  each_section(image, function(name, offset, size)
    if name ~= ".nv.info" then return end
    each_attribute(image, offset, size, function(attribute, at, n)
      if n ~= 8 or (attribute ~= 0x2f and attribute ~= 0x11) then return end
      local of, v = unpack("<I4I4", image, at)
      if of == symbol and attribute == 0x2f then
        registers = v
      elseif of == symbol then
        bytes = v
      end
    end)
  end)
  return registers, bytes
end

return { ptx_entries = ptx_entries, cubin_entries = cubin_entries, usage = usage }
