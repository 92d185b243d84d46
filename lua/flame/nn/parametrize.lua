--- Weights that are computed by functions of the script: parametrisations under PyTorch's names.
--- The file returns a function that adds them to flame.nn. (Weight and spectral norm: nn/lazy.lua.)
local flame = require "flame"
local arguments = require "flame.base.arguments"

return function(nn, shared)
  local Module, fail, put, fields = nn.Module, shared.raise, shared.put, shared.fields
  local utils = nn.utils

  -- A module with the parameter 'original' and the modules that are applied to it, in order.
  local List = Module.extend "ParametrizationList"
  function List:forward()
    local x = self.original
    for i = 1, #self do x = self[i](x) end
    return x
  end

  -- The list of a name, or nil.
  local function list_of(module, name)
    local all = rawget(module, "parametrizations")
    return all and rawget(all, name) or nil
  end

  -- Appends a parametrization. begin: if given, 'original' is set, by right_inverse of the earlier
  -- ones, so that they give begin.
  local function append(list, parametrization, begin)
    if begin then
      for i = #list, 1, -1 do
        local back = list[i].right_inverse
        if not back then
          fail("register_parametrization", "parametrization %d has no right_inverse", i)
        end
        begin = back(list[i], begin)
      end
      list.original = nn.Parameter(begin:detach():clone(), list.original.requires_grad)
    end
    list[#list + 1] = parametrization
  end

  --- From now on module[name] reads as parametrization(original), computed at each read; original
  --- is a parameter under module.parametrizations[name]. Several are applied in order. If the
  --- parametrization has a method right_inverse(weight), its result is the first value of original,
  --- otherwise the weight is. Unless unsafe is true, it raises if module[name] would then have
  --- another shape or dtype.
  put(utils, [[nn.utils.register_parametrization(module: Module, name: str, parametrization: Module,
    *, unsafe = false) -> Module]], function(module, name, parametrization, unsafe)
    local op = "register_parametrization"
    local class, list = getmetatable(module).__name, list_of(module, name)
    local w = list and list.original or fields.tensors_of(module)[name]
    if not w or shared.kinds[w] ~= "parameter" then
      fail(op, "%s has no parameter '%s'", class, name)
    end
    if not list and fields.is_computed(module, name) then
      fail(op, "%s's %s is computed from others already", class, name)
    end
    local before = module[name]:detach()
    local inverse = parametrization.right_inverse
    local begin = inverse and inverse(parametrization, before) or not list and before or nil
    local y = flame.no_grad(function() return parametrization(begin or before) end)
    local same = flame.is_tensor(y) and y.dtype == before.dtype
      and table.concat(y.shape, ", ") == table.concat(before.shape, ", ")
    if not same and not unsafe then
      fail(op, "the result is %s, %s's %s is %s (%s); unsafe = true allows it",
        flame.is_tensor(y) and ("%s (%s)"):format(y.dtype, table.concat(y.shape, ", "))
        or arguments.word(y), class, name, before.dtype, table.concat(before.shape, ", "))
    end
    if list then
      append(list, parametrization, begin)
      return module
    end
    list = List()
    list.original = nn.Parameter(begin:detach():clone(), w.requires_grad)
    list[1] = parametrization
    if not rawget(module, "parametrizations") then module.parametrizations = nn.ModuleDict() end
    module.parametrizations[name] = list
    module[name] = nil
    fields.compute(module, name, function(m) return m.parametrizations[name]() end)
    return module
  end)

  --- Makes the name a parameter again, with its current value, or with leave_parametrized = false
  --- the value of original.
  put(utils, [[nn.utils.remove_parametrizations(module: Module, name: str,
    leave_parametrized = true) -> Module]], function(module, name, leave)
    local list = list_of(module, name)
    if not list then
      fail("remove_parametrizations", "%s's '%s' has none", getmetatable(module).__name, name)
    end
    local w = leave and flame.no_grad(list) or list.original
    fields.compute(module, name, nil)
    module[name] = nn.Parameter(w:detach():clone(), list.original.requires_grad)
    module.parametrizations[name] = nil
    local left = false
    for _, v in next, module.parametrizations do left = left or shared.is_module(v) end
    if not left then module.parametrizations = nil end
    return module
  end)

  --- Is this name of a module parametrised? Without a name: is any?
  put(utils, "nn.utils.is_parametrized(module: Module, name?: str) -> bool", function(module, name)
    if name then return list_of(module, name) ~= nil end
    return rawget(module, "parametrizations") ~= nil
  end)
end
