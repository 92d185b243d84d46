--- Failing allocations (spec/support/oom.lua) in calls, user kernels, modules and files: every
--- fifth allocation, with `make oom` every one.
if require "spec.support.bare"(describe, it, "spec/memory/oom_families_spec.lua") then return end

local flame = require "flame"
local oom = dofile("spec/support/oom.lua")
local family, ramp = oom.families(it, 5), oom.ramp

--- The values of f(xs), then the gradients with respect to xs of a sum made of them.
local function with_gradients(f, ...)
  local xs = {}
  for i, x in ipairs { ... } do xs[i] = x:detach():requires_grad_(true) end
  local out = { f(table.unpack(xs)) }
  local loss = out[1]:square():sum()
  for i = 2, #out do if out[i].requires_grad then loss = loss + out[i]:sum() end end
  loss:backward()
  for i, y in ipairs(out) do out[i] = y:detach() end
  for _, x in ipairs(xs) do out[#out + 1] = x.grad or false end
  return out
end

describe("a failing allocation #oom", function()
  local file = os.tmpname()
  teardown(function() os.remove(file) end)

  family("sorting and counting", function(x, ids)
    local v, i = x:sort(2, { descending = true })
    local t, at = x:topk(2, 1)
    local u, back, counts = x:unique({ return_inverse = true, return_counts = true })
    return v, i, t, at, u, back, counts, x:argsort(1), x:kthvalue(2, 2), x:median(1),
      ids:bincount(), x:histc(4, -1, 1),
      flame.searchsorted(v[1]:flip(1):contiguous(), x), flame.randperm(9),
      flame.multinomial(x:abs(), 2)
  end, function() return ramp(4, 6), flame.tensor({ 1, 3, 3, 2 }, { dtype = "i64" }) end)
  family("the gradient of sorting", function(x)
    return with_gradients(function(t) return (t:sort(2)), (t:topk(3, 2)), (t:median(1)) end, x)
  end, function() return ramp(4, 6) end)
  family("scans", function(x)
    return with_gradients(function(t)
      return t:cumsum(1), t:cumprod(2), (t:cummax(1)), (t:cummin(2)), t:logcumsumexp(1)
    end, x)
  end, function() return ramp(4, 6) end)
  family("equations", function(a, b)
    return with_gradients(function(p, q)
      return p:solve(q), p:inverse(), p:det(), (p:matmul(p:t()) + flame.eye(3)):cholesky(),
        p:matrix_exp()
    end, a, b)
  end, function() return flame.eval(ramp(3, 3) * 0.3 + flame.eye(3) * 2), ramp(3, 2) end)
  family("spectra", function(a)
    local q, r = a:qr()
    local u, s, v = a:svd()
    local w, z = (a + a:t()):eigh()
    local sign, log = a:slogdet()
    return q, r, u, s, v, w, z, sign, log, (flame.linalg.lstsq(a, a))
  end, function() return flame.eval(ramp(3, 3) * 0.3 + flame.eye(3) * 2) end)
  family("transforms", function(x)
    return with_gradients(function(t)
      return t:rfft(), t:rfft():irfft(6), t:reshape(2, 6, 2):fft():ifft()
    end, x)
  end, function() return ramp(4, 6) end)
  family("convolutions", function(x, w, v)
    return with_gradients(function(a, b, c)
      return flame.conv2d(a, b, nil, { stride = 2, padding = 1 }),
        flame.conv_transpose2d(a, b:transpose(1, 2), nil, { stride = 2 }),
        flame.conv1d(a[1], c, nil, { dilation = 2, padding = 1 })
    end, x, w, v)
  end, function() return ramp(1, 2, 5, 6), ramp(3, 2, 3, 3), ramp(2, 5, 2) end)
  family("pooling and resampling", function(x)
    return with_gradients(function(t)
      return flame.avg_pool2d(t, 2), (flame.max_pool2d(t, 2)), flame.adaptive_avg_pool2d(t, 2),
        t:interpolate({ scale_factor = 2, mode = "bilinear", align_corners = false })
    end, x)
  end, function() return ramp(1, 2, 4, 6) end)
  family("recurrent modules", function(x)
    flame.seed(5)
    local nn = require "flame.nn"
    local lstm, gru = nn.LSTM(3, 2), nn.GRU(3, 2)
    local y, z = lstm(x), gru(x)
    local loss = y:sum() + z:sum()
    loss:backward()
    return y, z, lstm:parameters()[1].grad, gru:parameters()[1].grad
  end, function() return ramp(1, 2, 3) end)
  family("attention", function(x)
    flame.seed(5)
    local block = require "flame.nn".MultiheadAttention(4, 2)
    return with_gradients(function(t)
      return flame.scaled_dot_product_attention(t, t, t, { is_causal = true }), (block(t, t, t))
    end, x)
  end, function() return ramp(1, 3, 4) end)
  family("attention without scores", function(x)
    local mask, list = x:detach():gt(-1):select(4, 1):unsqueeze(3), nil
    list = with_gradients(function(t)
      return flame.internal.attention(t, t:flip(3), t, mask, 0.5, true)
    end, x)
    local t = x:detach():requires_grad_(true)
    local y = flame.internal.attention(t, t, t, nil, 0.5, true)
    list[#list + 1] = flame.autograd.grad(y:square():sum(), t, { create_graph = true })[1]
    return list
  end, function() return ramp(1, 2, 5, 4) end)
  family("einsum and rearrange", function(x, y)
    return flame.einsum("bij,bjk->bik", x, y), flame.einsum("bij,bjk->ik", x, y),
      flame.einsum("bii->b", x),
      x:rearrange("b (h d) t -> b h t d", { h = 1 }), x:rearrange("b i j -> (b i) j")
  end, function() return ramp(2, 3, 3), ramp(2, 3, 2) end)
  family("a kernel of the user", function(x)
    local cube = flame.kernel [[
      extern "C" __global__ void cube(const float *x, float *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) { float v = x[i]; y[i] = v * v * v; }
      } ]]
    local out = flame.zeros(24)
    cube:launch({ grid = { 1 }, block = { 32 } }, x, out, 24)
    local t = with_gradients(function(v) return (cube(v)) end, x)
    return t, out, cube:source("adjoint")
  end, function() return ramp(24) end)
  family("flame.map", function(x, y)
    local f = flame.map("x, y -> sqrtf(x * x + y * y + 1)")
    return with_gradients(function(a, b) return f(a, b) end, x, y)
  end, function() return ramp(4, 6), ramp(6) end)
  family("mixed precision", function(x)
    flame.seed(5)
    local net = require "flame.nn".Linear(6, 2)
    local optim = require "flame.optim"
    local scaler, opt = optim.GradScaler(), optim.SGD(net:parameters(), { lr = 0.1 })
    local loss = flame.autocast("bf16", function() return net(x):float():square():mean() end)
    scaler:scale(loss):backward()
    scaler:step(opt)
    scaler:update()
    return loss, net.weight
  end, function() return ramp(4, 6) end)
  family("functions that keep a value which is then written", function(x)
    local square = flame.func { name = "square", forward = function(ctx, v)
      ctx:save(v)
      return v * v
    end,
      backward = function(ctx, g) return g * 2 * ctx:saved() end }
    local w = x:detach():requires_grad_(true)
    local y = w * 1
    local z = square(y)
    y[1] = 0
    z:sum():backward()
    return w.grad, y:detach()
  end, function() return ramp(3, 2) end)
  family("checkpoints", function(x)
    return with_gradients(function(t)
      return flame.checkpoint(function(v) return (v * 2):tanh():exp() end, t)
    end, x)
  end, function() return ramp(3, 2) end)
  family("derivatives of functions", function(x, v)
    local function f(t) return (t * t):sin():sum() end
    return flame.grad(f)(x), flame.hessian(f, x),
      flame.jacobian(function(t) return t:cumsum(1) end, x), flame.vjp(f, x, flame.ones({})),
      flame.jvp(f, x, v)
  end, function() return ramp(3), ramp(3) end)
  family("arrays in files", function(x)
    flame.save(file .. ".npy", x)
    flame.save(file .. ".npz", { a = x, b = x[2] })
    local one, many = flame.load(file .. ".npy"), flame.load(file .. ".npz")
    os.remove(file .. ".npy")
    os.remove(file .. ".npz")
    return one, many.a, many.b
  end, function() return ramp(4, 6) end)
  family("readers of data", function(x)
    local f = assert(io.open(file, "w"))
    f:write("a,b\n1,2\n3,4\n")
    f:close()
    local data = require "flame.data"
    local csv = data.csv(file)
    local text = data.text(file)
    local sum = flame.zeros(3)
    for _, xb in data.batches({ x }, { size = 2, shuffle = true, prefetch = 2 }) do
      sum = sum + xb:sum()
    end
    return csv, text.ids, text.decode(text.ids), sum
  end, function() return ramp(4, 6) end)
  family("training of a tokenizer", function()
    local t = flame.tokenizers.train_bpe({ "abc abc abd", "abd \u{E9}\u{4F60}" }, 264,
      { special_tokens = { "<s>" }, max_token_length = 4 })
    t:save(file .. ".json")
    local again = flame.tokenizers.load(file .. ".json")
    os.remove(file .. ".json")
    local stream, out = again:stream(), {}
    for i, id in ipairs(t:encode("abc abd<s> \u{4F60}", { list = true })) do
      out[i] = stream:put(id)
    end
    return t:encode_batch({ "abc", "abd abc" }, { pad = 0 }), out, stream:finish()
  end)
  for kind, model in pairs {
    BPE = '"vocab":{"<u>":0,"a":1,"b":2,"ab":3},"merges":["a b"],"unk_token":"<u>"',
    Unigram = '"vocab":[["<u>",-9],["a",-2.5],["b",-1],["ab",-1e0]],"unk_id":0',
    WordPiece = '"vocab":{"<u>":0,"a":1,"##b":2,"ab":3},"unk_token":"<u>"',
    WordLevel = '"vocab":{"<u>":0,"a":1,"b":2,"ab":3},"unk_token":"<u>"' } do
    family("a tokenizer of " .. kind, function()
      local t = flame.tokenizers.from_string(([=[{"added_tokens":[{"id":9,"content":"<s>"},
        {"id":8,"content":"<t>","special":true}],"normalizer":{"type":"Sequence","normalizers":[
        {"type":"BertNormalizer"},{"type":"NFKC"},{"type":"Lowercase"},{"type":"Prepend","prepend":" "},
        {"type":"Replace","pattern":{"Regex":"(?i:C|d)+[^\\p{L}&&[x-z]]"},"content":"b"},
        {"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAAA="}]},
        "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Metaspace","replacement":"_"},
        {"type":"Whitespace"},{"type":"ByteLevel"},{"type":"BertPreTokenizer"}]},
        "post_processor":{"type":"BertProcessing","sep":["<t>",8],"cls":["<s>",9]},
        "decoder":{"type":"Sequence","decoders":[{"type":"WordPiece","prefix":"##","cleanup":true},
        {"type":"ByteFallback"},{"type":"Replace","pattern":{"String":"u"},"content":"v"},
        {"type":"Fuse"},{"type":"ByteLevel"},{"type":"Strip","content":" ","start":1,"stop":0}]},
        "model":{"type":"%s",%s}}]=]):format(kind, model))
      local ids = t:encode("Ab a\u{301}\u{323}<s>cdb\xFF \u{4F60}<t>", "b", { list = true })
      return ids, t:decode(ids), t:id "<s>", t:token(3)
    end)
  end
  family("other optimisers", function(x)
    local out = {}
    for _, name in ipairs { "SGD", "Adam", "RMSprop", "Adagrad", "Lion" } do
      flame.seed(3)
      local net = require "flame.nn".Linear(6, 2)
      local opt = require "flame.optim"[name](net:parameters(), { lr = 0.1 })
      net(x):square():mean():backward()
      opt:step()
      out[#out + 1] = net.weight
    end
    return out
  end, function() return ramp(4, 6) end)
  family("a rehearsal of a step", function(x)
    flame.seed(3)
    local net = require "flame.nn".Linear(6, 2)
    local optim = require "flame.optim"
    local opt = optim.Adam(net:parameters(), { lr = 0.1 })
    local rates = optim.schedule.exponential(opt, 0.5)
    local state = flame.rng_state()
    flame.warmup(function()
      net(x * flame.rand(4, 6)):square():mean():backward()
      opt:step()
      rates:step()
      x:mul_(2)
      return x:sum():item()
    end)
    assert(rates.at == 0 and opt.lr == 0.1 and opt.steps == 0 and next(opt.state) == nil)
    assert(net.weight.grad == nil and flame.rng_state()[1] == state[1])
    return net.weight * 1, x * 2
  end, function() return ramp(4, 6) end)
end)
