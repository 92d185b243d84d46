-- A convolutional variational autoencoder learns to describe handwritten digits by a few numbers,
-- and writes a PNG with given digits, the digits drawn from their numbers, and new digits.
--   flame-lua examples/vae.lua --data FOLDER [--out vae.png] [--epochs N] [--device auto|cpu|cuda]
-- FOLDER holds images-idx3-ubyte (the MNIST format, gzip or not). Without --data it makes digits.
local flame = require "flame"
local nn, optim, data = require "flame.nn", require "flame.optim", require "flame.data"

local options = data.options(arg, {
  { "data", "", "folder with images-idx3-ubyte[.gz]" },
  { "out", "vae.png", "the picture that is written" },
  { "device", "auto", "auto, cpu or cuda" },
  { "epochs", 10, "passes over the images" },
  { "batch", 100, "images a step" },
  { "rate", 2e-3, "learning rate" },
  { "latent", 16, "numbers that describe a digit" },
  { "images", 10000, "images to learn from, at most" },
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
images = images:narrow(1, 1, n):unsqueeze(2):to(flame.default_device())

local VAE = nn.Module.extend("VAE")
function VAE:init(latent)
  self.encoder = nn.Sequential {
    nn.Conv2d(1, 16, 4, { stride = 2, padding = 1 }), nn.ReLU(),
    nn.Conv2d(16, 32, 4, { stride = 2, padding = 1 }), nn.ReLU(),
    nn.Flatten(), nn.Linear(32 * 7 * 7, 2 * latent),
  }
  self.decoder = nn.Sequential {
    nn.Linear(latent, 32 * 7 * 7), nn.ReLU(), nn.Unflatten(2, { 32, 7, 7 }),
    nn.ConvTranspose2d(32, 16, 4, { stride = 2, padding = 1 }), nn.ReLU(),
    nn.ConvTranspose2d(16, 1, 4, { stride = 2, padding = 1 }),
  }
end
--- Gives the logits of the pixels, and the means and logarithms of the variances of the codes.
function VAE:forward(x)
  local mean, spread = table.unpack(self.encoder(x):chunk(2, 2))
  local code = mean + (spread * 0.5):exp() * flame.randn_like(mean)          -- drawn at random
  return self.decoder(code), mean, spread
end

local net = VAE(options.latent)
local opt = optim.Adam(net:parameters(), { lr = options.rate })
for epoch = 1, options.epochs do
  local total, count
  for _, x in data.batches({ images }, { size = options.batch, shuffle = true }) do
    local logits, mean, spread = net(x)
    local picture = flame.binary_cross_entropy_with_logits(logits, x, { reduction = "sum" })
    -- the divergence of the codes' distribution from the standard normal one
    local code = (mean * mean + spread:exp() - spread - 1):sum() * 0.5
    local loss = (picture + code) / x:size(1)
    opt:zero_grad()
    loss:backward()
    opt:step()
    total, count = (total or 0) + loss:detach(), (count or 0) + 1
  end
  print(("epoch %d  loss %.2f"):format(epoch, total:item() / count))
end

--- Joins images (rows * columns, 1, h, w) into one, in rows and columns with a margin.
local function grid(x, rows, columns)
  local h, w = x:size(3), x:size(4)
  return x:pad({ 1, 1, 1, 1 }):reshape(rows, columns, h + 2, w + 2):permute(1, 3, 2,
    4):reshape(rows * (h + 2), columns * (w + 2))
end

net:eval()
flame.no_grad(function()
  local given = images:narrow(1, 1, 16)
  local again = net(given):sigmoid()
  local own = net.decoder(flame.randn(64, options.latent)):sigmoid()
  flame.save(options.out, grid(flame.cat({ given, again, own }, 1), 6, 16))
end)
print("wrote " .. options.out)
