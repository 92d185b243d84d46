-- Trains GPT-2 on files of tokens (the 124M model; on the CPU a tiny one), and lets it write.
--   flame-lua examples/gpt2.lua [--data FOLDER] [--size gpt2|tiny] [--batch N] [--steps N] …
-- FOLDER holds train.bin and val.bin: GPT-2's token ids, 16 bits each, after --header bytes.
-- Without a folder the tokens are the bytes of a Debian machine's licence texts. --help lists
-- all options. With n processes (mpirun -n 2 flame-lua examples/gpt2.lua) each trains on different
-- sequences, so that a step has n * accumulate * batch of them.
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
local distributed = require "flame.distributed"
local rank, ranks = distributed.init()

local options = data.options(arg, {
  { "data", "", "folder with train.bin and val.bin" },
  { "header", 0, "bytes before the tokens of a file (1024 in llm.c's files)" },
  { "device", "auto", "auto, cpu or cuda" },
  { "size", "auto", "gpt2 (124M), tiny; auto: gpt2 on a GPU" },
  { "context", 0, "tokens of a sequence; 0: by size" },
  { "batch", 0, "sequences at a time; 0: by size" },
  { "accumulate", 1, "batches a step" },
  { "steps", 0, "training steps; 0: by size" },
  { "warmup", 0, "steps until the full rate; 0: a tenth of all, at most 700" },
  { "rate", 6e-4, "learning rate" },
  { "decay", 0.1, "weight decay of matrices" },
  { "every", 0, "steps between validations; 0: a tenth of all" },
  { "seed", 1, "of the random numbers" },
  { "save", "", "write a checkpoint here at every validation" },
  { "resume", "", "go on from this checkpoint" },
  { "stop", 0, "stop after this step (the schedule still counts to --steps)" },
  { "sample", 64, "tokens to write at the end" },
})

local device = options.device == "auto" and flame.best_device() or options.device
local sizes = {
  gpt2 = { layers = 12, heads = 12, width = 768, context = 1024, batch = 16, steps = 1000 },
  tiny = { layers = 2, heads = 2, width = 64, context = 64, batch = 8, steps = 200 },
}
local size =
  sizes[options.size == "auto" and (device == "cpu" and "tiny" or "gpt2") or options.size]
if not size then error("--size is gpt2, tiny or auto", 0) end
local function given(n, default) return n > 0 and n or default end
local context, batch, steps = given(options.context, size.context),
  given(options.batch, size.batch), given(options.steps, size.steps)
local every, warmup = given(options.every, math.max(1, steps // 10)),
  given(options.warmup, math.min(700, steps // 10))
flame.default_device(device)
flame.seed(options.seed + rank - 1)                      -- different sequences in each process

-- ---- tokens: ids from 1 ------------------------------------------------------------------------
local train, held, vocabulary, spell
if options.data ~= "" then
  local how = { dtype = "u16", header = options.header }
  train, held = data.tokens(options.data .. "/train.bin", how),
    data.tokens(options.data .. "/val.bin", how)
  vocabulary, spell = 50257, function(id) return (" %d"):format(id - 1) end   -- writes ids
else
  local text = data.text(data.licences())
  local n = text.ids:numel() * 9 // 10
  train, held = text.ids:narrow(1, 1, n), text.ids:narrow(1, n + 1, text.ids:numel() - n)
  vocabulary, spell = #text.vocab, function(id) return text.decode { id } end
end

--- Sequences from a list of positions on, and the same moved on by one: what is to be predicted.
local function sequences(ids, starts)
  local rows = {}
  for k, at in ipairs(starts) do rows[k] = ids:narrow(1, at, context + 1) end
  local both = flame.stack(rows, 1):to(device):long()
  return both:narrow(2, 1, context), both:narrow(2, 2, context)
end
local function starts_in(ids)
  return flame.randint({ batch }, 1, ids:numel() - context, { device = "cpu" }):totable()
end

-- ---- the model ---------------------------------------------------------------------------------
local Block = nn.Module.extend("Block")
function Block:init(width, heads)
  self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
  self.attention = nn.CausalSelfAttention(width, heads)
  self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
end
function Block:forward(x, cache)
  x = x + self.attention(self.norm1(x), cache)
  return x + self.down(self.up(self.norm2(x)):gelu("tanh"))
end

local GPT = nn.Module.extend("GPT")
function GPT:init()
  local width = size.width
  self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
  self.blocks = nn.ModuleList {}
  for _ = 1, size.layers do self.blocks:append(Block(width, size.heads)) end
  self.norm = nn.LayerNorm(width)
  for name, p in self:named_parameters() do
    if p.ndim == 2 then                          -- smaller where a branch ends in the residual
      nn.init.normal(p, 0,
        0.02 / ((name:find "proj" or name:find "down") and math.sqrt(2 * size.layers) or 1))
    end
  end
end
--- The logits of the tokens after x. caches: each block's keys and values of 'seen' earlier tokens.
function GPT:forward(x, caches, seen)
  local h = self.token(x) + self.position(flame.arange(x:size(2)) + (seen or 0))
  for k, block in ipairs(self.blocks) do h = block(h, caches and caches[k]) end
  return flame.linear(self.norm(h), self.token.weight)
end

local net = distributed.data_parallel(GPT())
local matrices, vectors = {}, {}                             -- weight decay for matrices only
for _, p in ipairs(net:parameters()) do table.insert(p.ndim >= 2 and matrices or vectors, p) end
local opt = optim.AdamW({ { params = matrices, weight_decay = options.decay },
  { params = vectors, weight_decay = 0 } },
  { lr = options.rate, betas = { 0.9, 0.95 } })
local plan = optim.schedule.cosine { opt = opt, warmup = warmup, steps = steps,
  min = options.rate / 10 }
local half = device ~= "cpu" and "bf16"                      -- matrix products; false: in f32

local function loss_of(ids, starts)
  local x, y = sequences(ids, starts)
  return flame.autocast(half, function()
    return flame.cross_entropy(net(x):reshape(-1, vocabulary), y:reshape(-1))
  end)
end

-- The mean loss over 8 batches of the held-back tokens, the same ones at every validation.
local function validate()
  local total, n = 0, 8
  net:eval()
  flame.no_grad(function()
    for k = 1, n do
      local starts = {}
      for i = 1, batch do
        starts[i] = 1 + ((k - 1) * batch + i - 1) * (held:numel() - context - 1) // (n * batch)
      end
      total = total + loss_of(held, starts):item()
    end
  end)
  net:train()
  return total / n
end

-- ---- saving and resuming: with one process, the bits are those of a run without a stop ----------
local done = 0
local function save()
  if options.save == "" then return end
  flame.save(options.save, { step = done, model = net:state_dict(), optimizer = opt:state_dict(),
    schedule = plan:state_dict(), random = flame.rng_state() })
end
if options.resume ~= "" then
  local saved = flame.load(options.resume)
  net:load_state_dict(saved.model)
  opt:load_state_dict(saved.optimizer)
  plan:load_state_dict(saved.schedule)
  if rank == 1 then flame.rng_state(saved.random)
  else flame.seed(options.seed + rank - 1 + ranks * saved.step) end
  done = saved.step
end

-- ---- training -----------------------------------------------------------------------------------
if rank == 1 then
  print(("%d tokens, %d different; %d parameters; %d steps of %d x %d x %d on %s"):format(
    train:numel(), vocabulary, net:count(), steps, ranks * options.accumulate, batch, context,
    device))
end
local progress = data.progress { steps = steps, from = done, unit = "tokens",
  each = ranks * options.accumulate * batch * context }
local last = options.stop > 0 and math.min(options.stop, steps) or steps
for step = done + 1, last do
  local loss = 0
  opt:zero_grad()
  for _ = 1, options.accumulate do
    local part = loss_of(train, starts_in(train)) / options.accumulate
    part:backward()
    loss = loss + part:detach()
  end
  optim.clip_grad_norm(net:parameters(), 1.0)
  opt:step()
  plan:step()
  done = step
  if rank == 1 and (step % every == 0 or step == last) then
    progress:line(step, ("loss %.3f  validation %.3f"):format(loss:item(), validate()))
    save()
  elseif rank == 1 then progress:tick(step, loss) end
end

-- ---- writing ------------------------------------------------------------------------------------
if options.sample > 0 and rank == 1 then
  local caches, out = {}, {}
  net:eval()
  for k, block in ipairs(net.blocks) do caches[k] = block.attention:cache(1, context) end
  flame.no_grad(function()
    -- continues the first 8 held-back tokens
    local ids = held:narrow(1, 1, 8):reshape(1, 8):to(device):long()
    for seen = 8, math.min(7 + options.sample, context - 1) do
      local logits = flame.autocast(half, net, ids, caches, seen - ids:size(2))
      ids = (logits[{ 1, -1 }]:float() / 0.8):softmax(1):multinomial(1):reshape(1, 1)
      out[#out + 1] = spell(ids:item())
    end
  end)
  print("--- sample ---\n" .. table.concat(out))
end
