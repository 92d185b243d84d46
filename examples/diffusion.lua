-- A small U-net learns to remove noise from pictures of digits, by diffusion or flow matching, and
-- writes a PNG with digits that it makes from noise.
--   flame-lua examples/diffusion.lua --data FOLDER [--out diffusion.png] [--epochs N] [--flow]
--   [--device auto|cpu|cuda]
-- FOLDER holds images-idx3-ubyte (the MNIST format, gzip or not). Without --data it makes digits.
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
local diffusion = require "flame.diffusion"

local options = data.options(arg, {
  { "data", "", "folder with images-idx3-ubyte[.gz]" },
  { "out", "diffusion.png", "the picture that is written" },
  { "device", "auto", "auto, cpu or cuda" },
  { "epochs", 20, "passes over the images" },
  { "batch", 100, "images a step" },
  { "rate", 2e-3, "learning rate" },
  { "width", 32, "channels of the first layer" },
  { "images", 10000, "images to learn from, at most" },
  { "steps", 20, "calls of the network for a picture" },
  { "flow", false, "flow matching instead of diffusion" },
  { "seed", 1, "of the random numbers" },
})
flame.default_device(options.device == "auto" and flame.best_device() or options.device)
flame.seed(options.seed)

local images
if options.data ~= "" then
  images = data.idx(data.find(options.data, "images-idx3-ubyte")):float() / 255
else
  images = data.drawn_digits(2000)
end
local n = math.min(images:size(1), options.images)
images = (images:narrow(1, 1, n):unsqueeze(2) * 2 - 1):to(flame.default_device())     -- -1 to 1

--- Two convolutions and a shortcut. The second input is the time: how much noise there is.
local Block = nn.Module.extend("Block")
function Block:init(inputs, outputs, times)
  self.first = nn.Conv2d(inputs, outputs, 3, { padding = 1 })
  self.norm1 = nn.GroupNorm(8, outputs)
  self.time = nn.Linear(times, outputs)
  self.second = nn.Conv2d(outputs, outputs, 3, { padding = 1 })
  self.norm2 = nn.GroupNorm(8, outputs)
  if inputs ~= outputs then self.skip = nn.Conv2d(inputs, outputs, 1) end
end
function Block:forward(x, time)
  local y = self.norm1(self.first(x)):silu() + self.time(time):unsqueeze(-1):unsqueeze(-1)
  y = self.norm2(self.second(y)):silu()
  return y + (self.skip and self.skip(x) or x)
end

--- A U-net predicts from a picture x and times t what to remove. It goes from 28 x 28 down to 7 x 7
--- values and up again; on the way up each level also gets its values from the way down.
local UNet = nn.Module.extend("UNet")
function UNet:init(c)
  local times = 4 * c
  self.size = c
  self.time = nn.FeedForward(c, times, "silu", { out_features = times })
  self.enter = nn.Conv2d(1, c, 3, { padding = 1 })
  self.down1, self.down2 = Block(c, c, times), Block(c, 2 * c, times)
  self.middle = Block(2 * c, 2 * c, times)
  self.up2, self.up1 = Block(4 * c, c, times), Block(2 * c, c, times)
  self.leave = nn.Conv2d(c, 1, 3, { padding = 1 })
  nn.init.zeros(self.leave.weight)
end
function UNet:forward(x, t)
  local time = self.time(diffusion.time_embedding(t, self.size)):silu()
  local a = self.down1(self.enter(x), time)
  local b = self.down2(a:avg_pool2d(2), time)
  local y = self.middle(b:avg_pool2d(2), time)
  y = self.up2(flame.cat({ y:interpolate { scale_factor = 2 }, b }, 2), time)
  y = self.up1(flame.cat({ y:interpolate { scale_factor = 2 }, a }, 2), time)
  return self.leave(y)
end

local net = UNet(options.width)
local schedule = diffusion.schedule(1000, "cosine")
local average = nn.AveragedModel(net, { decay = 0.99 })         -- draws better than the last step
--- A model for flow matching, which has times from 0 to 1: the embedding is made for 0 to 1000.
local function of_flow(model) return function(x, t) return model(x, t * 1000) end end
local function loss_of(x)
  if options.flow then return diffusion.flow_loss(of_flow(net), x) end
  return diffusion.loss(net, x, schedule, "v_prediction")
end
--- Makes pictures from noise, in options.steps calls of the model.
local function drawn(model, noise)
  if options.flow then
    return diffusion.flow(of_flow(model), noise, math.max(options.steps // 2, 1), "heun")
  end
  return diffusion.dpm_solver(model, noise, schedule, options.steps,
    { prediction = "v_prediction", clip = 1 })
end

local opt = optim.AdamW(net:parameters(), { lr = options.rate })
local plan = optim.schedule.cosine { opt = opt,
  steps = options.epochs * ((n + options.batch - 1) // options.batch) }
for epoch = 1, options.epochs do
  local total, count
  for _, x in data.batches({ images }, { size = options.batch, shuffle = true }) do
    local loss = loss_of(x)
    opt:zero_grad()
    loss:backward()
    opt:step()
    plan:step()
    average:update_parameters(net)
    total, count = (total or 0) + loss:detach(), (count or 0) + 1
  end
  print(("epoch %d  loss %.4f"):format(epoch, total:item() / count))
end

--- Joins images (rows * columns, 1, h, w) into one, in rows and columns with a margin.
local function grid(x, rows, columns)
  local h, w = x:size(3), x:size(4)
  return x:pad({ 1, 1, 1, 1 }):reshape(rows, columns, h + 2, w + 2):permute(1, 3, 2,
    4):reshape(rows * (h + 2), columns * (w + 2))
end

average:eval()
local pictures = (drawn(average, flame.randn(64, 1, 28, 28)) + 1) / 2
flame.save(options.out, grid(pictures:clamp(0, 1), 4, 16))
print("wrote " .. options.out)
