-- A small transformer learns to write like a text, character by character.
--   flame-lua examples/chargpt.lua [--data FILE] [--device auto|cpu|cuda] [--steps N] …
-- Without --data it learns the licence texts of a Debian machine. --help lists all options.
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"

local options = data.options(arg, {
  { "data", "", "text file or folder; default: the licence texts of a Debian machine" },
  { "device", "auto", "auto, cpu or cuda" },
  { "steps", 0, "training steps; 0: 4000 on the CPU, 3000 on a GPU" },
  { "size", "auto", "small, medium or large; auto: small on the CPU, large on a GPU" },
  { "batch", 0, "sequences a step; 0: by size" },
  { "rate", 0, "learning rate; 0: by size" },
  { "every", 0, "steps between validations; 0: a tenth of all" },
  { "seed", 1, "of the random numbers" },
  { "sample", 300, "characters to write at the end" },
  { "save", "", "write a checkpoint here at the end and at every validation" },
  { "resume", "", "go on from this checkpoint" },
  { "stop", 0, "stop after this step (the schedule still counts to --steps)" },
})

local device = options.device == "auto" and flame.best_device() or options.device
local sizes = {
  small  = { layers = 2, heads = 4, width = 64, context = 64, batch = 16, rate = 3e-3,
    dropout = 0 },
  medium = { layers = 4, heads = 4, width = 128, context = 128, batch = 32, rate = 2e-3,
    dropout = 0.1 },
  large  = { layers = 6, heads = 6, width = 384, context = 256, batch = 64, rate = 1e-3,
    dropout = 0.2 },
}
local size =
  sizes[options.size == "auto" and (device == "cpu" and "small" or "large") or options.size]
if not size then error("--size is small, medium, large or auto", 0) end
local steps = options.steps > 0 and options.steps or (device == "cpu" and 4000 or 3000)
local batch = options.batch > 0 and options.batch or size.batch
local every = options.every > 0 and options.every or math.max(1, steps // 10)
local context = size.context
flame.default_device(device)
flame.seed(options.seed)

-- ---- the text --------------------------------------------------------------------------------

local text = data.text(options.data ~= "" and options.data or data.licences())
local ids = text.ids:to(device)
local train_end = ids:numel() * 9 // 10                  -- the last tenth is held back
local train, held = ids:narrow(1, 1, train_end):clone(),
  ids:narrow(1, train_end + 1, ids:numel() - train_end):clone()
if held:numel() < context + 1 then
  error(("the text has %d characters, need at least %d"):format(ids:numel(), 10 * (context + 1)), 0)
end

-- Sequences that start at these positions, and the same moved on by one: what is to be predicted.
local offsets = flame.arange(context):reshape(1, context)
local function windows(source, starts)
  local at = starts:reshape(-1, 1) + (offsets - 1)
  return source[at], source[at + 1]
end

-- ---- the model ----------------------------------------------------------------------------------

local Block = nn.Module.extend("Block")
function Block:init(width, heads, dropout)
  self.norm1 = nn.LayerNorm(width)
  self.attention = nn.CausalSelfAttention(width, heads, { dropout = dropout })
  self.norm2 = nn.LayerNorm(width)
  self.up = nn.Linear(width, 4 * width)
  self.down = nn.Linear(4 * width, width)
  self.drop = nn.Dropout(dropout)
end
function Block:forward(x)
  x = x + self.drop(self.attention(self.norm1(x)))
  return x + self.drop(self.down(self.up(self.norm2(x)):gelu()))
end

local GPT = nn.Module.extend("GPT")
function GPT:init(vocabulary)
  self.token = nn.Embedding(vocabulary, size.width)
  self.position = nn.Embedding(context, size.width)
  self.blocks = nn.ModuleList {}
  for _ = 1, size.layers do self.blocks:append(Block(size.width, size.heads, size.dropout)) end
  self.norm = nn.LayerNorm(size.width)
  self.head = nn.Linear(size.width, vocabulary, { bias = false })
  nn.init.normal(self.token.weight, 0, 0.02)
  nn.init.normal(self.position.weight, 0, 0.02)
  nn.init.normal(self.head.weight, 0, 0.02)
end
function GPT:forward(x)
  local h = self.token(x) + self.position(flame.arange(x:size(2)))
  for _, block in ipairs(self.blocks) do h = block(h) end
  return self.head(self.norm(h))
end

local net = GPT(#text.vocab)
local decay, plain = {}, {}                              -- weight decay for matrices only
for _, p in ipairs(net:parameters()) do
  local list = p.ndim >= 2 and decay or plain
  list[#list + 1] = p
end
local opt = optim.AdamW({ { params = decay, weight_decay = 0.1 },
  { params = plain, weight_decay = 0 } },
                        { lr = options.rate > 0 and options.rate or size.rate,
                          betas = { 0.9, 0.99 } })
local plan = optim.schedule.cosine { opt = opt, warmup = math.min(100, steps // 10), steps = steps,
  min = opt.lr / 10 }

local function loss_of(source, starts)
  local x, y = windows(source, starts)
  local logits = net(x)
  return flame.cross_entropy(logits:reshape(-1, #text.vocab), y:reshape(-1))
end

-- The mean loss over 64 sequences of the held-back text, the same ones at every validation.
local held_starts = flame.linspace(1, held:numel() - context, 64):long()
local function validate()
  net:eval()
  local total = 0
  flame.no_grad(function()
    for i = 1, 64, 16 do total = total + loss_of(held, held_starts:narrow(1, i, 16)):item() end
  end)
  net:train()
  return total / 4
end

-- ---- saving and resuming: a resumed run gives the same bits as one that did not stop ------------

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
  flame.rng_state(saved.random)
  done = saved.step
end

-- ---- training -----------------------------------------------------------------------------------

print(("%d characters, %d different; %d parameters; %d steps of %d x %d on %s"):format(
  ids:numel(), #text.vocab, net:count(), steps, batch, context, device))
local progress = data.progress { steps = steps, from = done, unit = "tokens",
  each = batch * context }
local last = options.stop > 0 and math.min(options.stop, steps) or steps
for step = done + 1, last do
  local loss = loss_of(train, flame.randint({ batch }, 1, train:numel() - context))
  opt:zero_grad()
  loss:backward()
  optim.clip_grad_norm(decay, 1.0)
  opt:step()
  plan:step()
  done = step
  if step % every == 0 or step == last then
    progress:line(step, ("loss %.3f  validation %.3f"):format(loss:item(), validate()))
    save()
  else
    progress:tick(step, loss)
  end
end

-- ---- writing ------------------------------------------------------------------------------------

if options.sample > 0 then
  net:eval()
  data.seed(options.seed)
  -- the model writes as after the end of a line; 'out' has the ids of characters
  local out = { table.concat(text.vocab):find("\n", 1, true) or 1 }
  flame.no_grad(function()
    for _ = 1, options.sample do
      local window = {}                                    -- the model sees no more than these
      for i = math.max(1, #out - context + 1), #out do window[#window + 1] = out[i] end
      local logits = net(flame.tensor({ window }, { dtype = "i64" }))
      local chances = (logits[{ 1, -1 }] / 0.8):softmax(1):totable()     -- of the next character
      local r, pick = data.random(), #chances
      for i, p in ipairs(chances) do
        r = r - p
        if r <= 0 then pick = i break end
      end
      out[#out + 1] = pick
    end
  end)
  print("--- sample ---\n" .. text.decode(out):sub(2))
end
