-- Learns to read handwritten digits with a network of two layers, or a convolutional one, from
-- files in the MNIST format (IDX, gzip or not).
--   flame-lua examples/digits.lua --data FOLDER [--model mlp|cnn] [--device
--   auto|cpu|cuda] [--epochs N]
-- FOLDER holds images-idx3-ubyte and labels-idx1-ubyte; the last fifth of them is for the test.
-- Without --data the program draws digits itself, so that it runs without files. With n processes
-- (mpirun -n 4 flame-lua examples/digits.lua) each learns from other images, so that a step has n
-- times --batch images.
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"
local distributed = require "flame.distributed"
local rank, ranks = distributed.init()

local options = data.options(arg, {
  { "data", "", "folder with images-idx3-ubyte[.gz] and labels-idx1-ubyte[.gz]" },
  { "model", "mlp", "mlp: two layers; cnn: convolutions, and images moved about a little" },
  { "device", "auto", "auto, cpu or cuda" },
  { "epochs", 15, "passes over the training images" },
  { "batch", 100, "images a step" },
  { "rate", 3e-3, "learning rate" },
  { "seed", 1, "of the random numbers" },
})
local device = options.device == "auto" and flame.best_device() or options.device
flame.default_device(device)
flame.seed(options.seed + rank - 1)                      -- different dropout in each process
math.randomseed(options.seed)

local images, labels
if options.data ~= "" then
  images = data.idx(data.find(options.data, "images-idx3-ubyte")):float() / 255
  labels = data.idx(data.find(options.data, "labels-idx1-ubyte")):long() + 1
else
  images, labels = data.drawn_digits(2500)
end
local n = images:size(1)
local held = n // 5
local cnn = options.model == "cnn"
assert(cnn or options.model == "mlp", "--model is mlp or cnn")
local height, width = images:size(2), images:size(3)
images = (cnn and images:unsqueeze(2) or images:reshape(n, -1)):to(device)
labels = labels:to(device)
local train_x, train_y = images:narrow(1, 1, n - held):clone(),
  labels:narrow(1, 1, n - held):clone()
local test_x, test_y = images:narrow(1, n - held + 1, held), labels:narrow(1, n - held + 1, held)

local function convolutions()
  return nn.Sequential {
    nn.Conv2d(1, 16, 3, { padding = 1 }), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, { padding = 1 }), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * (height // 4) * (width // 4), 10),
  }
end

--- Moves the images of a batch by up to two pixels, all in the same direction.
local function moved(x)
  return x:pad({ 2, 2, 2, 2 }):narrow(3, math.random(5), height):narrow(4, math.random(5), width)
end

local net = cnn and convolutions()
  or nn.Sequential { nn.Linear(images:size(2), 256), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(256, 10) }
net = distributed.data_parallel(net:to(device))
local opt = optim.AdamW(net:parameters(), { lr = options.rate, weight_decay = 0.05 })
local steps = options.epochs * (((n - held) // ranks + options.batch - 1) // options.batch)
local plan = optim.schedule.cosine { opt = opt, steps = steps }

for epoch = 1, options.epochs do
  local total, count
  for _, x, y in data.batches({ train_x, train_y }, { size = options.batch, shuffle = true,
    shard = true }) do
    local loss = flame.cross_entropy(net(cnn and moved(x) or x), y)
    opt:zero_grad()
    loss:backward()
    opt:step()
    plan:step()
    total, count = (total or 0) + loss:detach(), (count or 0) + 1
  end
  if rank == 1 then print(("epoch %d  loss %.4f"):format(epoch, total:item() / count)) end
end

net:eval()
local right = flame.no_grad(function() return net(test_x):argmax(2):eq(test_y):sum():item() end)
if rank == 1 then print(("test accuracy %.1f %%"):format(100 * right / held)) end
