--- Mistyped options: every constructor of a module, an optimiser, a schedule or a loader refuses an
--- unknown option with a message that names it and suggests the nearest known one. Calls refuse
--- values that they can not use.
local flame = require "flame"
local nn, optim, data = flame.nn, flame.optim, flame.data

local helper = require "spec.support.helper"
local refused = helper.raises

--- Checks that f refuses 'option' with its first letters swapped, and suggests the right one.
local function mistyped(what, option, f)
  local wrong = option:gsub("^(.)(.)", "%2%1")
  local message = helper.message(f, { [wrong] = 1 })
  assert.is_truthy(message:find(("'%s'"):format(wrong), 1, true), what .. ": " .. message)
  assert.is_truthy(message:find(("did you mean '%s'?"):format(option), 1, true),
    what .. ": " .. message)
end

-- CLASSES: { pattern of class names, one of their options, or false if they take none, the
-- constructor's required arguments … }
local function layer() return nn.TransformerEncoderLayer(4, 2) end
local function of_decoder() return nn.TransformerDecoderLayer(4, 2) end
local CLASSES = {
  { "^Adaptive%a+Pool", "output_size" },
  { "^AdaptiveLogSoftmaxWithLoss$", "div_value", 4, 5, { 2 } },
  { "Dropout", "inplace" }, { "^LPPool", "ceil_mode" }, { "^MaxPool", "padding" },
  { "^AvgPool", "padding" },
  { "^MaxUnpool", "padding" }, { "^FractionalMaxPool", "output_ratio" },
  { "^LazyConv", "padding_mode", 2, 3 },
  { "^LazyBatchNorm", "momentum" }, { "^LazyInstanceNorm", "momentum" },
  { "^LazyLinear$", "bias", 2 },
  { "^Conv", "padding_mode", 2, 2, 3 }, { "^BatchNorm", "momentum", 2 },
  { "^InstanceNorm", "momentum", 2 },
  { "^GroupNorm$", "affine", 1, 2 }, { "^LayerNorm$", "elementwise_affine", 2 },
  { "^RMSNorm$", "elementwise_affine", 2 },
  { "^LocalResponseNorm$", "alpha" }, { "^Linear$", "bias", 2, 2 },
  { "^Bilinear$", "bias", 2, 2, 2 },
  { "^Embedding", "max_norm", 3, 2 }, { "^[%u]+$", "num_layers", 2, 2, only = "RNN LSTM GRU" },
  { "^[%u]+Cell$", "bias", 2, 2 }, { "^GELU$", "approximate" }, { "^GLU$", "inplace" },
  { "^LeakyReLU$", "negative_slope" },
  { "^C?ELU$", "alpha" }, { "^Softplus$", "threshold" }, { "^Hardtanh$", "min_val" },
  { "^Softm%a+$", "inplace" },
  { "^LogSoftmax$", "inplace" }, { "^Softmax2d$", "inplace" }, { "shrink$", "inplace" },
  { "^Threshold$", "threshold" },
  { "^RReLU$", "lower" }, { "^PReLU$", "num_parameters" }, { "^Flatten$", "start_dim" },
  { "^PairwiseDistance$", "keepdim" },
  { "^CosineSimilarity$", "eps" }, { "Loss$", "reduction" },
  { "^MultiheadAttention$", "add_zero_attn", 4, 2 },
  { "^CausalSelfAttention$", "dropout", 4, 2 }, { "^TransformerBlock$", "hidden", 4, 2 },
  { "^Transformer$", "dropout" },
  { "^Transformer%acoderLayer$", "norm_first", 4, 2 }, { "^TransformerEncoder$", "norm", layer, 1 },
  { "^TransformerEncoderLayer$", "norm_first", 4, 2 },
  { "^TransformerDecoderLayer$", "norm_first", 4, 2 },
  { "^TransformerDecoder$", "norm", of_decoder, 1 }, { "^Upsample$", "align_corners" },
  { "^Upsampling", "scale_factor" },
  { "^PixelShuffle$", "upscale_factor" }, { "^PixelUnshuffle$", "downscale_factor" },
  { "^ChannelShuffle$", "groups" },
  { "^Unfold$", "dilation" }, { "^Fold$", "dilation" }, { "^%a+$", "inplace", only = [[ReLU ReLU6
    SELU SiLU Mish Tanh Sigmoid LogSigmoid Softsign Hardsigmoid Hardswish]] },
  { "^AveragedModel$", "use_buffers", layer }, { "^GEGLU$", "bias", 2, 2 },
  { "^SwiGLU$", "bias", 2, 2 }, { "^FeedForward$", "activation", 4 }, { "^LoRA$", "dropout", 2, 2 },
  { "^GroupedQueryAttention$", "rope_base", 4, 2 },
  { "Pad%dd$", false },
  { "^%a+$", false,
    only = "Identity Module ModuleDict ModuleList ParameterDict ParameterList Sequential Unflatten" },
}
local function entry_of(name)
  for _, e in ipairs(CLASSES) do
    local only = e.only and " " .. e.only:gsub("%s+", " ") .. " "
    if only and only:find(" " .. name .. " ", 1, true) or not only and name:find(e[1]) then
      return e
    end
  end
end
local function classes()
  local list = {}
  for name, class in pairs(nn) do
    if type(class) == "table" and rawget(class, "__name") then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end
local function required(e)
  local args = {}
  for i = 3, #e do args[i - 2] = type(e[i]) == "function" and e[i]() or e[i] end
  return args
end

describe("options that do not exist", function()
  it("are refused by every class of modules", function()
    local list, met = classes(), 0
    for _, name in ipairs(list) do
      local e = assert(entry_of(name), name .. " has no entry in this spec")
      if e[2] then
        mistyped(name, e[2], function(o)
          local args = required(e)
          args[#args + 1] = o
          local made = nn[name](table.unpack(args))
          -- a lazy module checks its options when it gets its first input
          if name:find "^Lazy" then made(flame.ones(2, 2, 3, 3, 3)) end
        end)
        met = met + 1
      end
    end
    assert.is_true(#list > 130 and met > 110)
  end)
  it("are refused by every optimiser", function()
    local met = 0
    for name in pairs(optim) do
      if name:find "^%u" and name ~= "GradScaler" then
        mistyped(name,
          name == "LBFGS" and "max_iter" or name == "Rprop" and "maximize" or "weight_decay",
          function(o)
          return optim[name]({ flame.ones({ 2, 2 }, { requires_grad = true }) }, o)
        end)
        met = met + 1
      end
    end
    assert.is_true(met >= 14)
    mistyped("GradScaler", "growth_factor", optim.GradScaler)
    mistyped("GradScaler", "growth_factor", function(o) return optim.GradScaler("cuda", o) end)
    mistyped("clip_grad_norm", "norm_type", function(o) return optim.clip_grad_norm({}, 1, o) end)
    mistyped("zero_grad", "set_to_none", function(o) return nn.Linear(1, 1):zero_grad(o) end)
    mistyped("zero_grad", "set_to_none", function(o)
      return optim.SGD(nn.Linear(1, 1):parameters(), 1):zero_grad(o)
    end)
  end)
  it("are refused by every schedule", function()
    local options = { cosine = "warmup", cosine_restarts = "eta_min", step = "step_size",
      multi_step = "gamma", exponential = "gamma", linear = "end_factor", constant = "factor",
      polynomial = "power", lambda = "lr_lambda", multiplicative = "lr_lambda",
      one_cycle = "max_lr", cyclic = "base_lr", sequential = "milestones",
      reduce_on_plateau = "patience", chained = false }
    local opt = optim.SGD({ flame.ones(1) }, 1)
    for name, f in pairs(optim.schedule) do
      local option = options[name]
      assert(option ~= nil, name .. " has no entry in this spec")
      if option then mistyped(name, option, function(o) return f(opt, o) end) end
    end
    mistyped("CosineAnnealingLR", "eta_min", function(o)
      return optim.lr_scheduler.CosineAnnealingLR(opt, 3, o)
    end)
    refused("chained: schedule 1 is sequential or reduce_on_plateau", optim.schedule.chained,
      { optim.schedule.reduce_on_plateau(opt) })
    refused("chained: 2 arguments at most, got 3", optim.schedule.chained,
      { optim.schedule.step(opt, 2) }, opt, 3)
  end)
  it("are refused by readers and helpers", function()
    local path = os.tmpname()
    mistyped("batches", "shuffle", function(o) return data.batches({ flame.ones(2) }, o) end)
    mistyped("tokens", "header", function(o) return data.tokens(path, o) end)
    mistyped("csv", "header", function(o) return data.csv(path, o) end)
    mistyped("pad_sequence", "batch_first", function(o)
      return nn.utils.pad_sequence({ flame.ones(1) }, o)
    end)
    mistyped("pack_padded_sequence", "batch_first", function(o)
      return nn.utils.pack_padded_sequence(flame.ones(1, 1), { 1 }, o)
    end)
    mistyped("Embedding.from_pretrained", "freeze", function(o)
      return nn.Embedding.from_pretrained(flame.ones(2, 2), o)
    end)
    mistyped("kaiming_normal", "nonlinearity", function(o)
      return nn.init.kaiming_normal(flame.ones(2, 2), o)
    end)
    mistyped("load_state_dict", "strict", function(o) return nn.ReLU():load_state_dict({}, o) end)
    mistyped("a loader", "shuffle",
      function(o) data.batches({ flame.ones(2) }, { size = 1 })[next(o)] = true end,
      os.remove(path))
  end)
end)

describe("options of functions", function()
  it("that do not exist are refused", function()
    local x = flame.ones(2)
    for _, name in ipairs { "new_zeros", "new_ones", "new_empty" } do
      mistyped(name, "device", function(o) return x[name](x, 2, 3, o) end)
      mistyped(name, "device", function(o) return x[name](x, { 2 }, o) end)
    end
    mistyped("new_full", "device", function(o) return x:new_full({ 2 }, 1, o) end)
    mistyped("new_tensor", "device", function(o) return x:new_tensor({ 2 }, o) end)
    mistyped("func", "backward", function(o)
      o.forward = print
      return flame.func(o)
    end)
    mistyped("warmup", "device", flame.warmup)
    refused("grad: no option 'argnum', there is: argnums", flame.grad, print, { argnum = 1 })
    refused("autograd.anomaly: on must be true or false, got table", flame.autograd.anomaly, { 1 })
    refused("timer: 0 arguments at most, got 1", flame.timer, x)
    for _, name in ipairs { "is_tensor", "element_size", "free" } do
      local f = flame.has(name) and flame[name] or x[name]
      refused(name .. ": 1 argument at most, got 2", f, x, x)
    end
    local y = x:new_zeros(2, 3, { dtype = "i64" })
    assert.same({ "i64", 2, 3 }, { y.dtype, table.unpack(y.shape) })
    assert.is_true(x:new_tensor({ 1 }, { requires_grad = true }).requires_grad)
  end)
end)

describe("arguments that nothing would look at", function()
  it("are refused by constructors", function()
    refused("Unflatten: 2 arguments at most, got 3", nn.Unflatten, 1, { 2 }, 3)
    refused("ReflectionPad2d: 1 argument at most, got 2", nn.ReflectionPad2d, 1, 5)
    refused("Linear: bias is given by position and by name", nn.Linear, 2, 2, true,
      { bias = false })
    refused("bias must be true or false, got table with names; the options table comes last",
      nn.Linear, 2, 2, { bias = false }, "cpu")
    refused("Sequential: no option 'a', there is: modules", nn.Sequential, { a = nn.ReLU() })
    refused("Sequential: modules come as values or as one list, not both", nn.Sequential,
      { nn.ReLU() }, nn.ReLU())
    refused("ModuleList: 1 argument at most, got 2", nn.ModuleList, nn.ReLU(), nn.ReLU())
    refused("ModuleList: modules must be a list of Module, got table", nn.ModuleList, nn.ReLU())
    refused("UpsamplingBilinear2d: no option 'mode'", nn.UpsamplingBilinear2d, { mode = "nearest" })
  end)
  it("are refused by calls", function()
    local x, h = flame.ones(2, 3, 4), flame.zeros(1, 3, 5)
    refused("Linear: 1 argument at most, got 2", nn.Linear(4, 2), x, x)
    refused("ReLU: no option 'inplace', there is: x", nn.ReLU(), x, { inplace = true })
    refused("MaxPool1d: 1 argument at most, got 2", nn.MaxPool1d(2), x, 2)
    refused("GRU: 2 arguments at most, got 3", nn.GRU(4, 5), x, h, h)
    refused("GRU: no option 'h', there is: x h0", nn.GRU(4, 5), x, { h = h })
    refused("LSTM: a list of states is {h0, c0}", nn.LSTM(4, 5), x, { h, h }, h)
    refused("LSTMCell: no option 'h0', there is: x h c", nn.LSTMCell(4, 5), x[1],
      { h0 = h[1], c = h[1] })
    refused("h0 must be a tensor or a list of tensors, got number", nn.RNN(4, 5), x, 0)
    refused("got table with names; the options table comes last", layer(), x,
      { is_causal = true }, x)
    refused("MultiheadAttention: no option 'is_casual'", nn.MultiheadAttention(4, 2), x,
      { is_casual = true })
    refused("MultiheadAttention: attn_mask must be a tensor, got table",
      nn.MultiheadAttention(4, 2), x, { attn_mask = {} })
    refused("parameters: 0 arguments at most, got 1", function()
      nn.Linear(1, 1):parameters(false)
    end)
    refused("Threshold: threshold must be a number, got nothing", nn.Threshold)
    assert.same({ 2, 3, 2 }, nn.Linear(4, 2)(x, nil).shape)
    local gru, lstm = nn.GRU(4, 5), nn.LSTM(4, 5)
    assert.is_true(flame.equal((gru(x, h + 1)), (gru(x, { h0 = h + 1 }))))
    assert.is_true(flame.equal((lstm(x, h + 1, h)), (lstm(x, { h0 = h + 1, c0 = h }))))
    assert.is_true(flame.equal((lstm(x, h + 1, h)), (lstm(x, { h + 1, h }))))
  end)
end)
