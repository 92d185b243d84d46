--- What a case of bench/cases and bench/models gets besides its sizes: 'peer', with which it names
--- what the other side must get, and makes its steps. bench/peers/torch_peer.py has the same names.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local peer = { given = {}, drawn = {}, checking = false }

function peer.start() peer.given, peer.drawn, peer.checking = {}, {}, true end
function peer.finish() peer.given, peer.drawn, peer.checking = {}, {}, false end

--- Data of the case, by a name. Integers are positions: both sides count them from 1.
function peer.give(name, x)
  peer.given[name] = x
  return x
end

--- A network, whose parameters and buffers the other side loads by their names.
function peer.net(net, name)
  for key, x in pairs(net:state_dict { zero_based = true }) do
    peer.given[(name or "net") .. "." .. key] = x
  end
  return net
end

--- Random numbers that a step makes each time. While results are compared, the other side gets the
--- same ones.
function peer.draw(make)
  local x = make()
  if peer.checking then peer.drawn[#peer.drawn + 1] = x end
  return x
end

--- A case of a function of tensors: f returns its results, which are evaluated.
function peer.call(f)
  local function step() flame.eval(f()) end
  local function check()
    local list, out = table.pack(f()), {}
    for i = 1, list.n do out["out." .. i] = list[i] end
    return out
  end
  return { step = step, check = check }
end

--- y and its gradients with respect to xs, for the cotangent g.
function peer.backward(y, xs, g)
  local d, list = y:gradients(xs, g and { seed = g } or nil), { y }
  for i, x in ipairs(xs) do list[i + 1] = d[x] end
  return table.unpack(list)
end

--- The name of a parameter with numbers from 0, as PyTorch has them.
local function from_zero(name)
  local text = ("." .. name .. "."):gsub("%.(%d+)%f[.]", function(n) return "." .. n - 1 end)
  return text:sub(2, -2)
end

--- A case of training: step() returns a loss. nets: name -> network. Its results are the losses of
--- three steps and the gradients of the first one. quiet: networks have dropout, which is off
--- while results are compared. read: the loss is read after each step.
function peer.trained(o)
  local function check()
    local out, mode = {}, o.quiet and "eval" or "train"
    for _, net in pairs(o.nets) do net[mode](net) end
    for i = 1, 3 do
      out["loss." .. i] = o.step():detach():reshape(1)
      if i == 1 then
        for name, net in pairs(o.nets) do
          for key, p in net:named_parameters() do
            if p.grad then out["grad." .. name .. "." .. from_zero(key)] = p.grad:clone() end
          end
        end
      end
    end
    for _, net in pairs(o.nets) do net:train() end
    return out
  end
  return { step = o.read and function() o.step():item() end or o.step, check = check }
end

--- The usual case of training: one network, one optimiser, a function that returns the loss.
--- o: bf16 (autocast), clip (of the gradient's norm), and as in peer.trained.
function peer.train(net, opt, loss_of, o)
  o = o or {}
  local parameters = net:parameters()
  local function step()
    opt:zero_grad()
    local loss
    if o.bf16 then loss = flame.autocast("bf16", loss_of) else loss = loss_of() end
    loss:backward()
    if o.clip then optim.clip_grad_norm(parameters, o.clip) end
    opt:step()
    return loss
  end
  return peer.trained { step = step, nets = { net = net }, quiet = o.quiet, read = o.read }
end

--- A network with tanh, or what is given, between its layers.
function peer.mlp(sizes, between)
  local layers = {}
  for k = 2, #sizes do
    if k > 2 then layers[#layers + 1] = (between or nn.Tanh)() end
    layers[#layers + 1] = nn.Linear(sizes[k - 1], sizes[k])
  end
  return nn.Sequential(layers)
end

return peer
