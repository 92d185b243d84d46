"""Modules against PyTorch: spec/peer/nn.py [flame-lua [seed [rounds]]]. Each module is made in PyTorch, its
parameters are loaded here by their names, and results and gradients are compared in f64. The state_dict
that is saved here is loaded by PyTorch's module, all names and no others. Prints
the largest relative difference and ends with 1 if one is beyond its bound."""
import json, os, random, subprocess, sys, tempfile
import numpy as np
import torch
import torch.nn as T

D = dict(dtype=torch.float64)
torch.manual_seed(5)


def r(*shape):
    return torch.randn(*shape, **D)


def ids(n, *shape):
    return torch.randint(n, shape)


def soft(x, d=-1):
    return torch.softmax(x, d)


# Lua expression of the module, PyTorch's, inputs, and what follows the inputs in the call
mask = torch.tensor([[False, False, False, True], [False, True, False, False]])
CASES = [
    ("nn.Linear(5, 3)", T.Linear(5, 3, **D), [r(4, 5)], "", {}),
    ("nn.Bilinear(3, 4, 2)", T.Bilinear(3, 4, 2, **D), [r(5, 6, 3), r(5, 6, 4)], "", {}),
    ("nn.LayerNorm({3, 4})", T.LayerNorm((3, 4), **D), [r(2, 3, 4)], "", {}),
    ("nn.GroupNorm(2, 4)", T.GroupNorm(2, 4, **D), [r(3, 4, 5)], "", {}),
    ("nn.BatchNorm1d(4)", T.BatchNorm1d(4, **D), [r(6, 4)], "", {}),
    ("nn.BatchNorm2d(3, {momentum = 0.3})", T.BatchNorm2d(3, momentum=0.3, **D), [r(2, 3, 4, 5)], "", {}),
    ("nn.InstanceNorm1d(3, {affine = true})", T.InstanceNorm1d(3, affine=True, **D), [r(2, 3, 7)], "", {}),
    ("nn.PReLU(3)", T.PReLU(3, **D), [r(2, 3, 4)], "", {}),
    ("nn.MultiheadAttention(8, 2)", T.MultiheadAttention(8, 2, **D), [r(4, 2, 8), r(5, 2, 8), r(5, 2, 8)], "", {}),
    ("nn.MultiheadAttention(8, 2, {batch_first = true, kdim = 6, vdim = 5})",
     T.MultiheadAttention(8, 2, batch_first=True, kdim=6, vdim=5, **D), [r(2, 4, 8), r(2, 3, 6), r(2, 3, 5)], "", {}),
    ("nn.MultiheadAttention(8, 4, {batch_first = true})", T.MultiheadAttention(8, 4, batch_first=True, **D),
     [r(2, 4, 8)] * 3, "{key_padding_mask = mask, need_weights = false}", dict(key_padding_mask=mask, need_weights=False)),
    ("nn.MultiheadAttention(8, 4)", T.MultiheadAttention(8, 4, **D), [r(4, 8)] * 3,
     "{attn_mask = flame.ones({4, 4}, {dtype = 'bool'}):triu(1), average_attn_weights = false}",
     dict(attn_mask=torch.ones(4, 4, dtype=torch.bool).triu(1), average_attn_weights=False)),
    ("nn.MultiheadAttention(8, 2, {add_bias_kv = true, add_zero_attn = true})",
     T.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, **D), [r(4, 2, 8), r(5, 2, 8), r(5, 2, 8)], "", {}),
    ("nn.TransformerDecoderLayer(8, 2, {dim_feedforward = 16, dropout = 0})",
     T.TransformerDecoderLayer(8, 2, 16, 0.0, **D), [r(4, 3, 8), r(5, 3, 8)], "", {}),
    ("nn.TransformerDecoderLayer(8, 2, {dim_feedforward = 16, dropout = 0, norm_first = true, activation = 'gelu'})",
     T.TransformerDecoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True, **D), [r(4, 3, 8), r(5, 3, 8)], "", {}),
    ("nn.TransformerEncoderLayer(8, 2, {dim_feedforward = 16, dropout = 0})",
     T.TransformerEncoderLayer(8, 2, 16, 0.0, **D), [r(4, 3, 8)], "", {}),
    ("nn.TransformerEncoderLayer(8, 2, {dim_feedforward = 16, dropout = 0, norm_first = true, batch_first = true, activation = 'gelu'})",
     T.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True, batch_first=True, **D), [r(4, 3, 8)], "", {}),
    ("nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, {dim_feedforward = 16, dropout = 0}), 2)",
     T.TransformerEncoder(T.TransformerEncoderLayer(8, 2, 16, 0.0, **D), 2, enable_nested_tensor=False), [r(4, 3, 8)], "", {}),
    ("nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, {dim_feedforward = 16, dropout = 0}), 2)",
     T.TransformerDecoder(T.TransformerDecoderLayer(8, 2, 16, 0.0, **D), 2), [r(4, 3, 8), r(5, 3, 8)], "", {}),
    ("nn.Transformer(8, 2, {num_encoder_layers = 1, num_decoder_layers = 2, dim_feedforward = 16, dropout = 0})",
     T.Transformer(8, 2, 1, 2, 16, 0.0, **D), [r(5, 3, 8), r(4, 3, 8)], "", {}),
    ("nn.RNNCell(5, 4)", T.RNNCell(5, 4, **D), [r(3, 5)], "", {}), ("nn.RMSNorm(5)", T.RMSNorm(5, **D), [r(3, 4, 5)], "", {}),
    ("nn.Embedding(7, 4)", T.Embedding(7, 4, **D), [ids(7, 3, 5)], "", {}),
    ("nn.EmbeddingBag(7, 4, {mode = 'sum'})", T.EmbeddingBag(7, 4, mode="sum", **D), [ids(7, 3, 5)], "", {}),
    ("nn.Sequential {nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(80, 2)}",
     T.Sequential(T.Conv2d(3, 4, 3), T.BatchNorm2d(4), T.ReLU(), T.Flatten(), T.Linear(80, 2)).double(), [r(3, 3, 6, 7)], "", {}),
    ("nn.Sequential {nn.Sequential {nn.Linear(3, 4), nn.Tanh()}, nn.Identity(), nn.Linear(4, 2)}",
     T.Sequential(T.Sequential(T.Linear(3, 4), T.Tanh()), T.Identity(), T.Linear(4, 2)).double(), [r(5, 2, 3)], "", {}),
    ("nn.AdaptiveLogSoftmaxWithLoss(16, 10, {4, 7})", T.AdaptiveLogSoftmaxWithLoss(16, 10, [4, 7], **D), [r(9, 16), torch.arange(1, 10)], "", {}),
    ("nn.NLLLoss()", T.NLLLoss(), [torch.log_softmax(r(4, 5), 1), ids(5, 4)], "", {}),
    ("nn.MultiMarginLoss()", T.MultiMarginLoss(), [r(4, 5), ids(5, 4)], "", {}),
] + [(f"nn.{n}({', '.join(map(str, p))})", getattr(T, n)(*p), [r(2, 4, 6, 8)], "", {}) for n, *p in [
    ("ReLU",), ("Sigmoid",), ("Tanh",), ("Softmax2d",), ("PixelUnshuffle", 2), ("ChannelShuffle", 2), ("ReplicationPad2d", 2),
    ("CircularPad2d", 1), ("ZeroPad2d", 1)]
] + [(f"nn.{n}({a})", getattr(T, n)(*p), [r(3, 4) * 2], "", {}) for n, a, p in [
    ("ReLU6", "", []), ("LeakyReLU", "0.2", [0.2]), ("ELU", "1.5", [1.5]), ("CELU", "0.7", [0.7]), ("SELU", "", []), ("GELU", "", []),
    ("GELU", "{approximate = 'tanh'}", ["tanh"]), ("SiLU", "", []), ("Mish", "", []),
    ("Softplus", "2, 1.5", [2, 1.5]), ("Hardtanh", "-0.5, 1", [-0.5, 1]), ("Hardsigmoid", "", []), ("Hardswish", "", []),
    ("LogSigmoid", "", []), ("Softsign", "", []), ("Tanhshrink", "", []), ("Softshrink", "0.4", [0.4]), ("Hardshrink", "0.4", [0.4]),
    ("Threshold", "0.1, 3", [0.1, 3]), ("GLU", "", []), ("Softmax", "1", [0]), ("LogSoftmax", "-1", [-1]), ("Softmin", "2", [1])]
] + [(f"nn.{n}({a})", getattr(T, n)(**p), x, "", {}) for n, a, p, x in [
    ("CrossEntropyLoss", "{label_smoothing = 0.1}", dict(label_smoothing=0.1), [r(4, 5), soft(r(4, 5))]),
    ("MSELoss", "", {}, [r(4, 5), r(4, 5)]), ("L1Loss", "{reduction = 'sum'}", dict(reduction="sum"), [r(4, 5), r(4, 5)]),
    ("SmoothL1Loss", "{beta = 0.5}", dict(beta=0.5), [r(4, 5), r(4, 5)]), ("HuberLoss", "{delta = 0.7}", dict(delta=0.7), [r(4, 5), r(4, 5)]),
    ("BCELoss", "", {}, [torch.sigmoid(r(4, 5)), torch.sigmoid(r(4, 5))]),
    ("BCEWithLogitsLoss", "{reduction = 'none'}", dict(reduction="none"), [r(4, 5), torch.sigmoid(r(4, 5))]),
    ("KLDivLoss", "{reduction = 'batchmean'}", dict(reduction="batchmean"), [torch.log_softmax(r(4, 5), 1), soft(r(4, 5))]),
    ("SoftMarginLoss", "", {}, [r(4, 5), r(4, 5).sign()]), ("HingeEmbeddingLoss", "", {}, [r(4, 5), r(4, 5).sign()]),
    ("MarginRankingLoss", "0.3", dict(margin=0.3), [r(6), r(6), r(6).sign()]),
    ("CosineEmbeddingLoss", "0.1", dict(margin=0.1), [r(4, 5), r(4, 5), torch.tensor([1.0, -1, 1, -1], **D)]),
    ("TripletMarginLoss", "", {}, [r(4, 5), r(4, 5), r(4, 5)]),
    ("TripletMarginLoss", "{swap = true, margin = 0.5}", dict(swap=True, margin=0.5), [r(4, 5), r(4, 5), r(4, 5)]),
    ("TripletMarginWithDistanceLoss", "", {}, [r(4, 5), r(4, 5), r(4, 5)]),
    ("MultiLabelSoftMarginLoss", "", {}, [r(4, 5), torch.sigmoid(r(4, 5))]),
    ("PoissonNLLLoss", "{full = true}", dict(full=True), [r(4, 5), r(4, 5).abs() * 3]),
    ("GaussianNLLLoss", "", {}, [r(4, 5), r(4, 5), r(4, 5).abs() + 0.1]),
    ("CosineSimilarity", "", {}, [r(4, 5), r(4, 5)]), ("PairwiseDistance", "", {}, [r(4, 5), r(4, 5)])]
]

BOTH, PAIR = [True, False], [2, (2, 3)]


def sized(n, *values):
    """A number, or a list of as many as there are axes."""
    return list(values) + [tuple(values[i % len(values)] for i in range(n))]


def drawn_classes():
    """[(class, required arguments, [(option, values)] in PyTorch's order, shape of the input)]"""
    norm = [("eps", [1e-3]), ("momentum", [0.3]), ("affine", BOTH), ("track_running_stats", BOTH)]
    shapes = {1: (3, 4, 9), 2: (3, 4, 7, 8), 3: (2, 4, 5, 6, 7)}
    for n, x in shapes.items():
        stride, dilation, pad = ("stride", sized(n, 1, 2)), ("dilation", sized(n, 1, 2)), ("padding", sized(n, 0, 1))
        modes = ["zeros", "reflect", "replicate", "circular"][:4 if n < 3 else 2]
        yield f"Conv{n}d", [4, 6, 3], [stride, ("padding", sized(n, 1, 2) + (["same"] if n < 3 else [])), dilation, ("groups", [1, 2]), ("bias", BOTH), ("padding_mode", modes)], x
        yield f"ConvTranspose{n}d", [4, 6, 3], [("stride", [2]), pad, ("output_padding", [0, 1]), ("groups", [1, 2]), ("bias", BOTH), ("dilation", [1, 2])], x
        yield f"MaxPool{n}d", [2], [stride, pad, dilation, ("return_indices", [False]), ("ceil_mode", BOTH)], x
        yield f"AvgPool{n}d", [3], [stride, pad, ("ceil_mode", BOTH), ("count_include_pad", BOTH)] + ([("divisor_override", [5])] if n > 1 else []), x
        yield f"AdaptiveAvgPool{n}d", [3], [], x
        yield f"AdaptiveMaxPool{n}d", [2], [], x
        yield f"BatchNorm{n}d", [4], norm, x
        yield f"InstanceNorm{n}d", [4], norm, x
        if n < 3:
            yield f"LPPool{n}d", [2, 2], [("stride", [1, 2]), ("ceil_mode", BOTH)], x
            yield f"ReflectionPad{n}d", [2], [], x
            yield f"ConstantPad{n}d", [2, 0.5], [], x
        yield f"Upsample", [], [("size", [None]), ("scale_factor", [2, 1.5]), ("mode", ["nearest", ["linear", "bilinear", "trilinear"][n - 1]])], x
    yield "Unfold", [3], [("dilation", PAIR), ("padding", PAIR), ("stride", PAIR)], (2, 3, 8, 9)
    yield "Fold", [(4, 5), 2], [], (2, 12, 12)
    yield "LayerNorm", [(5, 6)], [("eps", [1e-3]), ("elementwise_affine", BOTH)], (3, 5, 6)
    yield "GroupNorm", [2, 4], [("eps", [1e-3]), ("affine", BOTH)], (3, 4, 5)
    yield "Linear", [5, 3], [("bias", BOTH)], (2, 4, 5)
    yield "LocalResponseNorm", [2], [("alpha", [1e-2]), ("beta", [0.6]), ("k", [1.5])], (3, 4, 5)
    yield "Flatten", [], [("start_dim", [0, 1]), ("end_dim", [2, -1])], (2, 3, 4)
    yield "Unflatten", [1, (2, 3)], [], (2, 6)
    yield "PReLU", [], [("num_parameters", [1, 4]), ("init", [0.3])], (3, 4, 5)
    yield "RReLU", [], [("lower", [0.2]), ("upper", [0.2])], (3, 4)
    yield "PixelShuffle", [2], [], (2, 8, 3, 4)
    rnn = [("num_layers", [1, 2]), ("bias", BOTH), ("batch_first", BOTH), ("dropout", [0.0]), ("bidirectional", BOTH)]
    yield "RNN", [5, 4], rnn[:1] + [("nonlinearity", ["tanh", "relu"])] + rnn[1:], (3, 2, 5)
    yield "LSTM", [5, 4], rnn + [("proj_size", [0, 3])], (3, 2, 5)
    yield "GRU", [5, 4], rnn, (3, 2, 5)
    yield "LSTMCell", [5, 4], [("bias", BOTH)], (3, 5)
    yield "GRUCell", [5, 4], [("bias", BOTH)], (3, 5)
    yield "TransformerEncoderLayer", [8, 2], [("dim_feedforward", [12]), ("dropout", [0.0]), ("activation", ["relu", "gelu"]), ("layer_norm_eps", [1e-3]), ("batch_first", BOTH), ("norm_first", BOTH)], (3, 2, 8)
    yield "MultiheadAttention", [8, 2], [("dropout", [0.0]), ("bias", BOTH), ("add_bias_kv", BOTH), ("add_zero_attn", BOTH)], "attention"


def lua_of(v, axis=False):
    if v is None:
        return "nil"
    if isinstance(v, bool):
        return str(v).lower()
    if isinstance(v, tuple):
        return "{" + ", ".join(map(str, v)) + "}"
    return f'"{v}"' if isinstance(v, str) else str(v + 1 if axis and v >= 0 else v)


def drawn(seed, count):
    """Modules with options by chance: the first few by position, the others by name."""
    chance = random.Random(seed)
    for _ in range(count):
        for name, must, options, shape in drawn_classes():
            have = {k: chance.choice(v) for k, v in options if chance.random() < 0.6 or k in ("dropout", "lower", "upper", "scale_factor")}
            try:
                module = getattr(T, name)(*must, **have).double()
                x = [r(4, 2, 8), r(5, 2, 8), r(5, 2, 8)] if shape == "attention" else [r(*shape)]
                module(*x)
            except (ValueError, RuntimeError, NotImplementedError, AssertionError):
                continue                                   # options that do not go together
            split = chance.randint(0, len(options))
            front = [k for k, _ in options[:split]]
            while front and front[-1] not in have:
                front.pop()
            axis = name in ("Flatten", "Unflatten")
            args = [lua_of(v, axis and i == 0) for i, v in enumerate(must)]
            args += [lua_of(have.get(k), axis) for k in front]
            rest = [f"{k} = {lua_of(v, axis)}" for k, v in have.items() if k not in front]
            if rest:
                args.append("{" + ", ".join(rest) + "}")
            yield f"nn.{name}({', '.join(args)})", module, x, "", {}


LUA = """
local nn = require "flame.nn"
local mask = flame.tensor({{false, false, false, true}, {false, true, false, false}})
local folder = arg[1]
local function worst(a, b)
  if a:numel() == 0 then return 0 end
  return ((a - b):abs():max() / (b:abs():max() + 1e-6)):item()
end
local function from0(name)
  return (("." .. name .. "."):gsub("%.(%d+)%f[.]", function(k) return "." .. k - 1 end):sub(2, -2))
end
local function case(i, module, inputs, call)
  local t = flame.load(folder .. "/" .. i .. ".npz")
  module:double()
  local state = {}
  for name, x in pairs(t) do if name:match("^state%.") then state[name:sub(7)] = x end end
  module:load_state_dict(state, {zero_based = true})
  flame.save(folder .. "/" .. i .. ".safetensors", module:state_dict {zero_based = true})
  local x = {}
  for k = 1, inputs do
    local v = t["in" .. k]
    x[k] = v:is_floating_point() and v:requires_grad_(t["gin" .. k] ~= nil) or v + 1
  end
  if call ~= nil then x[inputs + 1] = call end
  local out = {module(table.unpack(x))}
  local total, bad = nil, 0
  for k, y in ipairs(out) do
    bad = math.max(bad, worst(y, t["out" .. k]))
    local part = (y * t["seed" .. k]):sum()
    total = total and total + part or part
  end
  total:backward()
  for k = 1, inputs do if t["gin" .. k] then bad = math.max(bad, worst(x[k].grad or x[k] * 0, t["gin" .. k])) end end
  for name, p in module:named_parameters() do bad = math.max(bad, worst(p.grad, t["grad." .. from0(name)])) end
  for name, b in module:named_buffers() do bad = math.max(bad, worst(b:double(), t["after." .. from0(name)]:double())) end
  print(("%.3g"):format(bad))
end
"""


def read_safetensors(path):
    """Name -> tensor; the format is a length, a JSON header and bytes."""
    kinds = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64}
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        body = f.read()
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(body[slice(*h["data_offsets"])]), dtype=kinds[h["dtype"]]).reshape(h["shape"])
            if h["data_offsets"][0] < h["data_offsets"][1] else torch.empty(h["shape"], dtype=kinds[h["dtype"]])
            for name, h in header.items()}


def not_loaded(path, module, before):
    """Why PyTorch's module does not load the file, or what it has otherwise than it had."""
    try:
        module.load_state_dict(read_safetensors(path) if before else {})
        wrong = [k for k, v in module.state_dict().items() if not torch.equal(v, before[k])]
        return wrong and "loaded otherwise: " + " ".join(wrong)
    except (RuntimeError, OSError, KeyError) as why:
        return str(why).replace("\n", " ")


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/flame-lua"
    seed, rounds = (int(v) for v in (sys.argv[2:] + ["1", "1"][len(sys.argv[2:]):]))
    CASES.extend(drawn(seed, rounds))
    text, bad, states = LUA, 0, []
    with tempfile.TemporaryDirectory() as folder:
        for i, (lua, module, inputs, call, options) in enumerate(CASES):
            keep = {f"state.{k}": v.numpy().copy() for k, v in module.state_dict().items()}
            before = {k: v.clone() for k, v in module.state_dict().items()}
            leaves = [x.clone().requires_grad_((k == 0 or "Loss" not in lua) and x.is_floating_point()) for k, x in enumerate(inputs)]
            out = module(*leaves, **options)
            out = [z for y in (out if isinstance(out, tuple) else (out,)) if y is not None
                   for z in (y if isinstance(y, tuple) else (y,))]
            seeds = [torch.randn_like(y) for y in out]
            sum((y * s).sum() for y, s in zip(out, seeds)).backward()
            for k, x in enumerate(leaves, 1):
                keep[f"in{k}"] = x.detach().numpy()
                if x.grad is not None:
                    keep[f"gin{k}"] = x.grad.numpy()
            for k, (y, s) in enumerate(zip(out, seeds), 1):
                keep[f"out{k}"], keep[f"seed{k}"] = y.detach().numpy(), s.numpy()
            keep |= {f"grad.{k}": p.grad.numpy() for k, p in module.named_parameters()}
            keep |= {f"after.{k}": b.numpy() for k, b in module.named_buffers()}
            np.savez(os.path.join(folder, f"{i}.npz"), **keep)
            states.append((module, before))
            text += f'do local ok, why = pcall(function() case({i}, {lua}, {len(inputs)}, {call or "nil"}) end) if not ok then print("inf " .. why) end end\n'
        script = os.path.join(folder, "cases.lua")
        with open(script, "w") as f:
            f.write(text)
        done = subprocess.run([program, script, folder], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        refused = [not_loaded(os.path.join(folder, f"{i}.safetensors"), *s) for i, s in enumerate(states)]
    for case, line, other in zip(CASES, lines, refused, strict=True):
        value, _, why = line.partition(" ")
        if other:
            value, why = "inf", why or other
        bound = 1e-7 if case[0][3:7] in ("CELU", "Hard") else 1e-9     # PyTorch has f32 constants in these
        bad += not float(value) <= bound
        print(f"{float(value):9.2e} {'  ' if float(value) <= bound else '! '}{case[0]} {why}")
    print(f"{len(CASES) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
