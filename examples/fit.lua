-- Fits y = a sin(b x) to noisy points by gradient descent, and prints a and b (1.5 and 0.8).
local flame = require "flame"
flame.seed(7)
local x = flame.linspace(-3, 3, 100)
local y = 1.5 * (0.8 * x):sin() + 0.05 * flame.randn(100)
local a, b = flame.tensor(1, { requires_grad = true }), flame.tensor(1, { requires_grad = true })
for _ = 1, 300 do
  local g = ((a * (b * x):sin() - y) ^ 2):mean():gradients { a, b }  -- of the mean squared error
  flame.no_grad(function() a:sub_(g[a] * 0.1) b:sub_(g[b] * 0.1) end)  -- a step downhill
end
print(("y = %.2f sin(%.2f x)"):format(a:item(), b:item()))
