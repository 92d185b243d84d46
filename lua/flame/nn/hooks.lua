--- Backward hooks of modules. The file returns a function that adds them to nn.Module.
local flame = require "flame"
local arguments = require "flame.base.arguments"

return function(nn, shared)
  local Module, fail = nn.Module, shared.fail

  -- Joins the gradients that a backward hook returned ('new') into one tensor; where it returned
  -- none, the one in 'gradients' stays. places: which arguments are tracked.
  local function rejoin(what, new, gradients, places)
    if flame.is_tensor(new) and #places == 1 then new = { [places[1]] = new } end
    if type(new) ~= "table" then
      fail("%s: a backward hook returns a list with a gradient for each argument, or nothing; got %s",
        what, arguments.word(new))
    end
    local flat = {}
    for i, k in ipairs(places) do
      local g = arguments.need_tensor(what, "gradient " .. k .. " of a backward hook",
        new[k] or gradients[k])
      local shape, own = table.concat(g.shape, ", "), table.concat(gradients[k].shape, ", ")
      if shape ~= own then
        fail("%s: gradient %d of a backward hook has shape (%s), its argument (%s)", what,
          k, shape, own)
      end
      flat[i] = g:reshape(-1)
    end
    return flame.cat(flat, 1)
  end

  -- Replaces the tracked arguments by parts of one tensor, so that all their gradients arrive
  -- together: f gets the list of gradients, false for other arguments, and may return another
  -- list. Returns the list that backward fills, and how many arguments are tracked.
  local function join_arguments(what, args, f)
    local gradients, places, sizes, flat, like = {}, {}, {}, {}, {}
    for k = 1, args.n do
      local x = args[k]
      gradients[k] = false
      if flame.is_tensor(x) and x.requires_grad and flame.is_grad_enabled() then
        local i = #places + 1
        places[i], sizes[i], flat[i], like[i] = k, x:numel(), x:reshape(-1),
          { shape = x.shape, dtype = x.dtype }
      end
    end
    if #places == 0 then return gradients, 0 end
    local function give(to, all)
      for i, part in ipairs(all:split(sizes, 1)) do
        to[places[i]] = part:reshape(like[i].shape):to(like[i].dtype):clone()
      end
    end
    local all = flame.cat(flat, 1)
    give(args, all)
    all:register_hook(function(g)
      give(gradients, g)
      local new = f(gradients)
      return new and rejoin(what, new, gradients, places):to(g.dtype) or nil
    end)
    return gradients, #places
  end

  --- f(module, gradients of the arguments, gradients of the result) runs in each backward, with two
  --- lists that have false where there is no gradient. A list that it returns replaces the first.
  --- If forward has several results, the second list has the gradient of the first result. Returns
  --- a table with remove().
  shared.put(Module, "Module:register_full_backward_hook(f: fn) -> table", function(self, f)
    local call                                           -- of the module
    local before = self:register_forward_pre_hook(function(module, args)
      local now = { outputs = { false } }
      now.inputs, now.tracked = join_arguments(getmetatable(module).__name, args,
        function(gradients)
        return f(module, gradients, now.outputs)
      end)
      call = now
      return args
    end)
    local after = self:register_forward_hook(function(module, _, y)
      local now = call
      if not flame.is_tensor(y) or not y.requires_grad then return end
      y = y:clone()
      y:register_hook(function(g)
        now.outputs[1] = g
        if now.tracked == 0 then f(module, now.inputs, now.outputs) end
      end)
      return y
    end)
    return { remove = function() before:remove() after:remove() end }
  end)
end
