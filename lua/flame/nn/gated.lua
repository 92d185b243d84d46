--- Gated layers and the feed-forward part of a transformer's block. The file returns a function
--- that adds them to flame.nn.
local flame = require "flame"

return function(nn, shared)
  local fail, class, call, positive = shared.raise, shared.class, shared.call, shared.count

  local function setup(self, name, inputs, outputs, bias, as)
    positive(name, "in_features", inputs)
    positive(name, "out_features", outputs)
    as.bias = bias
    self.proj = nn.Linear(inputs, 2 * outputs, as)
  end
  --- The first half of the features times f(second half).
  local function gate(x, f)
    local n = x:size(-1) // 2
    return x:narrow(-1, 1, n) * f(x:narrow(-1, n + 1, n))
  end
  --- A linear layer to twice the features; the result is its first half times gelu of its second
  --- half.
  class([[nn.GEGLU(in_features: int, out_features: int, bias = true, device?: device,
    dtype?: dtype)]], function(self, inputs, outputs, bias, device, dtype)
    setup(self, "GEGLU", inputs, outputs, bias, { device = device, dtype = dtype })
  end)
  call(nn.GEGLU, "(x: T) -> T", function(self, x) return gate(self.proj(x), flame.gelu) end)

  --- A linear layer to twice the features; the result is its first half times silu of its second
  --- half.
  class([[nn.SwiGLU(in_features: int, out_features: int, bias = true, device?: device,
    dtype?: dtype)]], function(self, inputs, outputs, bias, device, dtype)
    setup(self, "SwiGLU", inputs, outputs, bias, { device = device, dtype = dtype })
  end)
  call(nn.SwiGLU, "(x: T) -> T", function(self, x) return gate(self.proj(x), flame.silu) end)

  local gates = { geglu = "GEGLU", swiglu = "SwiGLU" }
  --- Two linear layers over the last axis with an activation between them: the name of a function
  --- such as "gelu", or "geglu" or "swiglu" for a gated layer. hidden is by default 4 times the
  --- features; dropout acts after the activation.
  class([[nn.FeedForward(features: int, hidden?: int, activation: str = "gelu", dropout = 0,
    bias = true, out_features?: int, device?: device, dtype?: dtype)]],
    function(self, features, hidden, activation, dropout, bias, outputs, device, dtype)
      local op = "FeedForward"
      hidden, outputs = hidden or 4 * features, outputs or features
      positive(op, "features", features)
      positive(op, "hidden", hidden)
      positive(op, "out_features", outputs)
      local as = { bias = bias, device = device, dtype = dtype }
      local gated = gates[activation]
      if not (gated or flame.has(activation) and type(flame[activation]) == "function") then
        fail(op, "there is no activation '%s'", activation)
      end
      self.activation = activation
      if gated then self.up = nn[gated](features, hidden, as)
      else self.up = nn.Linear(features, hidden, as) end
      self.dropout = nn.Dropout(dropout)
      self.down = nn.Linear(hidden, outputs, as)
    end)
  call(nn.FeedForward, "(x: T) -> T", function(self, x)
    local y = self.up(x)
    if not gates[self.activation] then y = flame[self.activation](y) end
    return self.down(self.dropout(y))
  end)
  function nn.FeedForward:extra() return ("activation=%s"):format(self.activation) end
end
