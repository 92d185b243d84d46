-- Handwritten digits: a two-layer network on IDX files (the MNIST format, gzip or not).
--   flame-lua examples/digits.lua --data FOLDER [--device auto|cpu|cuda] [--epochs N]
-- FOLDER holds images-idx3-ubyte and labels-idx1-ubyte; the last fifth is held back.
-- Without --data it draws digits of its own, so that it always runs.
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"

local options = data.options(arg, {
  { "data", "", "folder with images-idx3-ubyte[.gz] and labels-idx1-ubyte[.gz]" },
  { "device", "auto", "auto, cpu or cuda" },
  { "epochs", 15, "passes over the training images" },
  { "batch", 100, "images a step" },
  { "rate", 3e-3, "learning rate" },
  { "seed", 1, "of the random numbers" },
})
local device = options.device == "auto" and flame.best_device() or options.device
flame.default_device(device)
flame.seed(options.seed)

local images, labels
if options.data ~= "" then
  images = data.idx(data.find(options.data, "images-idx3-ubyte")):float() / 255
  labels = data.idx(data.find(options.data, "labels-idx1-ubyte")):long() + 1
else
  images, labels = data.drawn_digits(2500)
end
local n = images:size(1)
local held = n // 5
images = images:reshape(n, -1):to(device)
labels = labels:to(device)
local train_x, train_y = images:narrow(1, 1, n - held):clone(), labels:narrow(1, 1, n - held):clone()
local test_x, test_y = images:narrow(1, n - held + 1, held), labels:narrow(1, n - held + 1, held)

local net = nn.Sequential { nn.Linear(images:size(2), 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10) }
local opt = optim.AdamW(net:parameters(), { lr = options.rate, weight_decay = 0.05 })
local steps = options.epochs * ((n - held + options.batch - 1) // options.batch)
local plan = optim.schedule.cosine { opt = opt, steps = steps }

for epoch = 1, options.epochs do
  local total, count
  for _, x, y in data.batches({ train_x, train_y }, { size = options.batch, shuffle = true }) do
    local loss = flame.cross_entropy(net(x), y)
    opt:zero_grad()
    loss:backward()
    opt:step()
    plan:step()
    total, count = (total or 0) + loss:detach(), (count or 0) + 1
  end
  print(("epoch %d  loss %.4f"):format(epoch, total:item() / count))
end

net:eval()
local right = flame.no_grad(function() return net(test_x):argmax(2):eq(test_y):sum():item() end)
print(("test accuracy %.1f %%"):format(100 * right / held))
