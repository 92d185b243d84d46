--- How constructors of modules read their arguments. Given what raises and what reads options.
local flame = require "flame"

return function(fail, options_of)
  local function positive(what, name, value)
    if math.type(value) ~= "integer" or value < 1 then
      fail("%s: %s is %s, need a positive integer", what, name,
        flame.is_tensor(value) and "a tensor" or tostring(value))
    end
  end

  local function is_options(t)
    return type(t) == "table" and getmetatable(t) == nil
      and (next(t) == nil or type(next(t)) == "string")
  end

  --- What has a default: by position in the order of 'names' (one text), or in a table at the end;
  --- 'more' are names that only the table may hold.
  local function read(what, names, more, ...)
    local out, list, known, given = {}, {}, {}, table.pack(...)
    for name in names:gmatch("%S+") do
      list[#list + 1] = name
      known[name] = true
    end
    for name in more:gmatch("%S+") do known[name] = true end
    local last = given.n
    while last > 0 and given[last] == nil do last = last - 1 end
    if last > 0 and is_options(given[last]) then
      for key, value in pairs(options_of(what, given[last], known)) do out[key] = value end
      last = last - 1
    end
    for i = 1, last do
      if is_options(given[i]) and next(given[i]) ~= nil then
        fail("%s: the options table comes last", what)
      end
    end
    if last > #list then
      fail("%s: %d argument%s too many", what, last - #list, last - #list == 1 and "" or "s")
    end
    for i = 1, last do
      if given[i] ~= nil and out[list[i]] ~= nil then
        fail("%s: %s is given by position and by name", what, list[i])
      end
      if given[i] ~= nil then out[list[i]] = given[i] end
    end
    return out
  end

  --- Of o: what a constructor of tensors takes.
  local function make_options(o) return { dtype = o.dtype, device = o.device } end

  return positive, read, make_options
end
