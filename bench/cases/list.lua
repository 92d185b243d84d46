--- All cases that bench/peers/worker.lua knows: name -> function(o, peer), which gets the sizes of
--- a row (bench/peers/rows.py) and bench/peers/peer.lua, and returns a case.
local cases = {}
for _, file in ipairs { "ops", "nets", "small", "kernels" } do
  for name, make in pairs(dofile("bench/cases/" .. file .. ".lua")) do cases[name] = make end
end
for _, name in ipairs { "llama", "unet", "vit", "dcgan", "gnn", "nerf", "sac", "convnext",
  "mobilenet", "wavenet", "experts", "gru", "unet3d", "linear_attention" } do
  cases[name] = function(...) return dofile("bench/models/" .. name .. ".lua")(...) end
end
return cases
