--- Recurrent layers: RNN, LSTM, GRU and their cells, with PyTorch's parameter names, order of
-- gates and initialisation. A layer multiplies its whole input with the input weights at once; each
-- step then has one product with the hidden state. Returns a function that adds them to flame.nn.
local flame = require "flame"
local recording = require "flame.base.recording"

return function(nn, shared)
  local fail, positive, class, call = shared.fail, shared.positive, shared.class, shared.call

  -- ---- one step ------------------------------------------------------------------------------
  -- step(gx, gh, state) gives the next state: gx and gh are the gates' input and hidden parts, each
  -- (n, gates * hidden), and state is {h} or {h, c}.
  local steps = {}
  local function plain(activation)
    return function(gx, gh) return { flame[activation](gx + gh) } end
  end
  steps.tanh, steps.relu = plain "tanh", plain "relu"
  function steps.lstm(gx, gh, state)
    local i, f, g, o = table.unpack((gx + gh):chunk(4, 2))
    local c = f:sigmoid() * state[2] + i:sigmoid() * g:tanh()
    return { o:sigmoid() * c:tanh(), c }
  end
  function steps.gru(gx, gh, state)
    local xr, xz, xn = table.unpack(gx:chunk(3, 2))
    local hr, hz, hn = table.unpack(gh:chunk(3, 2))
    local r, z = (xr + hr):sigmoid(), (xz + hz):sigmoid()
    local n = (xn + r * hn):tanh()
    return { n + z * (state[1] - n) }
  end

  local gates_of = { tanh = 1, relu = 1, lstm = 4, gru = 3 }

  --- A parameter uniform in +-1 / sqrt(hidden), as all weights of these layers start.
  local function weight(shape, hidden, o)
    local bound = 1 / math.sqrt(hidden)
    return nn.Parameter(flame.uniform(shape, -bound, bound,
      { device = o.device, dtype = o.dtype }))
  end

  --- The rows of x (steps, n, …) as a list.
  local function rows(x) return x.shape[1] > 0 and x:unbind(1) or {} end

  local function text(x) return "(" .. table.concat(x.shape, ", ") .. ")" end

  --- The initial states h and c, (layers, n, size) each: checked if given, else zeros. sizes: their
  --- last axes; layers: number of layers times directions.
  local function initial(name, x, given, sizes, layers, n)
    local states = {}
    for k, hidden in ipairs(sizes) do
      local s = given[k]
      if s == nil then
        s = flame.zeros({ layers, n, hidden }, { dtype = x.dtype, device = x.device })
      elseif s.ndim ~= 3 or s.shape[1] ~= layers or s.shape[2] ~= n or s.shape[3] ~= hidden then
        fail("%s: %s has shape %s, need (%d, %d, %d)", name, k == 1 and "h0" or "c0", text(s),
          layers, n, hidden)
      end
      states[k] = rows(s)
    end
    return states
  end

  -- ---- layers -----------------------------------------------------------------------------------
  --- The states h and c that follow x in a call, as arguments or as one list. names: for messages.
  local function states_given(name, names, h, c)
    if type(h) ~= "table" then return h, c end
    if c ~= nil or #h > #names then
      fail("%s: a list of states is {%s}", name, table.concat(names, ", "))
    end
    return h[1], h[2]
  end

  --- One direction of one layer over a list of inputs; gives the list of outputs and the last
  --- state. masks: where a step has an element; elsewhere the state stays and the output is 0.
  local function run(self, suffix, inputs, state, backwards, masks)
    local step = steps[self.mode]
    local wx, wh, bx, bh = self["weight_ih" .. suffix], self["weight_hh" .. suffix],
      self["bias_ih" .. suffix], self["bias_hh" .. suffix]
    local projection = self.proj_size > 0 and self["weight_hr" .. suffix]
    local n, out = #inputs, {}
    -- pin the line of all ops only now: reading the weights may run functions with their own lines
    local _ <close> = recording.unpin
    recording.pin()
    local gx = rows(flame.linear(flame.stack(inputs), wx, bx))
    for k = 1, n do
      local t = backwards and n + 1 - k or k
      local before = state
      state = step(gx[t], flame.linear(state[1], wh, bh), state)
      if projection then state[1] = flame.linear(state[1], projection) end
      out[t] = state[1]
      if masks then
        out[t] = flame.where(masks[t], out[t], 0)
        for i = 1, #state do state[i] = flame.where(masks[t], state[i], before[i]) end
      end
    end
    return out, state
  end

  --- Runs all layers on x (steps, n, inputs) from the states 'given'; returns y and last states.
  local function forward(self, name, x, given, masks)
    local directions, count = self.bidirectional and 2 or 1, self.mode == "lstm" and 2 or 1
    local sizes = { self.proj_size > 0 and self.proj_size or self.hidden_size,
      count == 2 and self.hidden_size or nil }
    local start = initial(name, x, given, sizes, self.num_layers * directions, x.shape[2])
    local inputs, last = rows(x), {}
    for k = 1, count do last[k] = {} end
    for layer = 0, self.num_layers - 1 do
      local halves = {}
      for d = 1, directions do
        local at, state = layer * directions + d, {}
        for k = 1, count do state[k] = start[k][at] end
        halves[d], state = run(self, ("_l%d%s"):format(layer, d == 2 and "_reverse" or ""), inputs,
          state, d == 2, masks)
        for k = 1, count do last[k][at] = state[k] end
      end
      for t = 1, #inputs do
        inputs[t] = directions == 2 and flame.cat({ halves[1][t], halves[2][t] }, 2) or halves[1][t]
      end
      if self.dropout > 0 and self.training and layer < self.num_layers - 1 then
        for t = 1, #inputs do inputs[t] = inputs[t]:dropout(self.dropout) end
      end
    end
    for k = 1, count do last[k] = flame.stack(last[k]) end
    return flame.stack(inputs), last
  end

  --- Makes the parameters of all layers, with PyTorch's names, in PyTorch's order.
  local function make_weights(self, o)
    local directions, hidden = self.bidirectional and 2 or 1, self.hidden_size
    local size, out = gates_of[self.mode] * hidden, self.proj_size > 0 and self.proj_size or hidden
    for l = 0, self.num_layers - 1 do
      for d = 1, directions do
        local suffix = ("_l%d%s"):format(l, d == 2 and "_reverse" or "")
        self["weight_ih" .. suffix] = weight(
          { size, l == 0 and self.input_size or out * directions }, hidden, o)
        self["weight_hh" .. suffix] = weight({ size, out }, hidden, o)
        if o.bias then
          self["bias_ih" .. suffix] = weight({ size }, hidden, o)
          self["bias_hh" .. suffix] = weight({ size }, hidden, o)
        end
        if self.proj_size > 0 then
          self["weight_hr" .. suffix] = weight({ out, hidden }, hidden, o)
        end
      end
    end
  end

  --- Checks sizes and options of a layer, and sets its fields. mode: "lstm", "gru", or nil for an
  --- RNN, whose mode is the option nonlinearity.
  local function configure(self, name, mode, o)
    self.num_layers, self.dropout, self.proj_size = o.num_layers, o.dropout, o.proj_size or 0
    self.batch_first, self.bidirectional = o.batch_first, o.bidirectional
    self.mode = mode or o.nonlinearity
    positive(name, "input_size", self.input_size)
    positive(name, "hidden_size", self.hidden_size)
    positive(name, "num_layers", self.num_layers, shared.LAYERS)
    if not (self.dropout >= 0 and self.dropout <= 1) then
      fail("%s: dropout = %g, need 0 <= dropout <= 1", name, self.dropout)
    end
    if self.proj_size < 0 or self.proj_size >= self.hidden_size then
      fail("%s: proj_size = %s, need 0 to %d, less than hidden_size", name, tostring(o.proj_size),
        self.hidden_size - 1)
    end
  end

  --- Runs a layer on a packed sequence x; returns a packed sequence and the last states.
  local function over_packed(self, name, x, given)
    if x.data.ndim ~= 2 or x.data.shape[2] ~= self.input_size then
      fail("%s: x has shape %s, need %d inputs on the last axis", name, text(x.data),
        self.input_size)
    end
    return shared.over_packed(x, function(v, masks) return forward(self, name, v, given, masks) end)
  end

  --- Runs a layer on a tensor x, with the batch on the axis that the layer expects or without one.
  local function over_tensor(self, name, x, given)
    if x.ndim ~= 2 and x.ndim ~= 3 then
      fail("%s: x has shape %s, need 3 axes, or 2 without a batch", name, text(x))
    end
    if x.shape[x.ndim] ~= self.input_size then
      fail("%s: x has shape %s, need %d inputs on the last axis", name, text(x), self.input_size)
    end
    local single = x.ndim == 2
    if single then
      x = x:unsqueeze(2)
      for k = 1, 2 do given[k] = given[k] and given[k]:unsqueeze(2) end
    elseif self.batch_first then
      x = x:transpose(1, 2)
    end
    if x.shape[1] == 0 then fail("%s: x has shape %s: there is no step", name, text(x)) end
    local y, last = forward(self, name, x, given)
    if single then
      y = y:squeeze(2):clone()
      for k = 1, #last do last[k] = last[k]:squeeze(2):clone() end
    elseif self.batch_first then
      y = y:transpose(1, 2):clone()
    end
    return y, last
  end

  -- Makes a class of layers; names: its options, in order. A call takes x (steps, n, inputs), (n,
  -- steps, inputs) with batch_first, or without n; the states may be one list {h0, c0}. It gives y,
  -- h and, for an LSTM, c. A packed sequence gives a packed one.
  local function layer(declaration, mode, names)
    local name, order = declaration:match("%.(%w+)%("), {}
    for word in names:gmatch("%S+") do order[#order + 1] = word end
    local made = class(declaration, function(self, input_size, hidden_size, ...)
      local o = {}
      for i, key in ipairs(order) do o[key] = (select(i, ...)) end
      self.input_size, self.hidden_size = input_size, hidden_size
      configure(self, name, mode, o)
      make_weights(self, o)
    end)

    call(made, mode == "lstm"
      and "(x: T|PackedSequence, h0?: T|T[], c0?: T) -> T|PackedSequence, h: T, c: T"
      or "(x: T|PackedSequence, h0?: T|T[]) -> T|PackedSequence, h: T", function(self, x, ...)
      local h0, c0 = states_given(name, mode == "lstm" and { "h0", "c0" } or { "h0" }, ...)
      if mode == "lstm" and h0 and not c0 then
        fail("%s: h0 without c0\1: y, h, c = lstm(x, h, c)", name)
      end
      local y, last = (shared.is_packed(x) and over_packed or over_tensor)(self, name,
        x, { h0, c0 })
      return y, table.unpack(last)
    end)
    function made:extra()
      return ("%d, %d%s%s%s%s"):format(self.input_size, self.hidden_size,
        self.proj_size > 0 and ", proj_size=" .. self.proj_size or "",
        self.num_layers > 1 and ", num_layers=" .. self.num_layers or "",
        self.batch_first and ", batch_first=true" or "",
        self.bidirectional and ", bidirectional=true" or "")
    end
  end
  --- Layers of h = f(W x + U h + b), where nonlinearity names f: y, h = rnn(x[, h]).
  layer([[nn.RNN(input_size: int, hidden_size: int, num_layers: int = 1,
    nonlinearity: "tanh"|"relu" = "tanh", bias = true, batch_first = false, dropout = 0,
    bidirectional = false, device?: device, dtype?: dtype)]], nil,
    "num_layers nonlinearity bias batch_first dropout bidirectional device dtype")
  --- Long short-term memory: y, h, c = lstm(x[, h, c]).
  layer([[nn.LSTM(input_size: int, hidden_size: int, num_layers: int = 1, bias = true,
    batch_first = false, dropout = 0, bidirectional = false, proj_size: int = 0, device?: device,
    dtype?: dtype)]], "lstm",
    "num_layers bias batch_first dropout bidirectional proj_size device dtype")
  --- Gated recurrent units: y, h = gru(x[, h]).
  layer([[nn.GRU(input_size: int, hidden_size: int, num_layers: int = 1, bias = true,
    batch_first = false, dropout = 0, bidirectional = false, device?: device, dtype?: dtype)]],
    "gru", "num_layers bias batch_first dropout bidirectional device dtype")

  -- ---- cells ------------------------------------------------------------------------------------
  -- Makes a class of cells. A call takes (x[, h[, c]]) with x (n, inputs) or (inputs), and gives h
  -- and, for an LSTM, c.
  local function cell(declaration, mode)
    local name = declaration:match("%.(%w+)%(")
    local made = class(declaration, function(self, input_size, hidden_size, bias, ...)
      local kind, device, dtype = ...
      if mode then kind, device, dtype = mode, kind, device end
      local o = { device = device, dtype = dtype }
      positive(name, "input_size", input_size)
      positive(name, "hidden_size", hidden_size)
      self.input_size, self.hidden_size, self.mode = input_size, hidden_size, kind
      local size = gates_of[self.mode] * hidden_size
      self.weight_ih, self.weight_hh = weight({ size, input_size }, hidden_size, o),
        weight({ size, hidden_size }, hidden_size, o)
      if bias then
        self.bias_ih, self.bias_hh = weight({ size }, hidden_size, o),
          weight({ size }, hidden_size, o)
      end
    end)
    call(made, mode == "lstm" and "(x: T, h?: T|T[], c?: T) -> h: T, c: T"
      or "(x: T, h?: T|T[]) -> T", function(self, x, ...)
      local h, c = states_given(name, mode == "lstm" and { "h", "c" } or { "h" }, ...)
      if mode == "lstm" and h and not c then
        fail("%s: h without c\1: h, c = cell(x, h, c)", name)
      end
      if x.ndim ~= 1 and x.ndim ~= 2 or x.shape[x.ndim] ~= self.input_size then
        fail("%s: x has shape %s, need (n, %d) or (%d)", name, text(x), self.input_size,
          self.input_size)
      end
      local single, state = x.ndim == 1, { h, c }
      if single then x = x:unsqueeze(1) end
      for k = 1, self.mode == "lstm" and 2 or 1 do
        local s = state[k]
        if s == nil then
          s = flame.zeros({ x.shape[1], self.hidden_size }, { dtype = x.dtype, device = x.device })
        elseif single then s = s:unsqueeze(1) end
        if s.ndim ~= 2 or s.shape[1] ~= x.shape[1] or s.shape[2] ~= self.hidden_size then
          fail("%s: %s has shape %s, need (%d, %d)", name, k == 1 and "h" or "c", text(s),
            x.shape[1], self.hidden_size)
        end
        state[k] = s
      end
      local new = steps[self.mode](flame.linear(x, self.weight_ih, self.bias_ih),
        flame.linear(state[1], self.weight_hh, self.bias_hh), state)
      if single then for k = 1, #new do new[k] = new[k]:squeeze(1):clone() end end
      return table.unpack(new)
    end)
    function made:extra() return self.input_size .. ", " .. self.hidden_size end
  end
  --- One step of nn.RNN: h = cell(x[, h]).
  cell([[nn.RNNCell(input_size: int, hidden_size: int, bias = true,
    nonlinearity: "tanh"|"relu" = "tanh", device?: device, dtype?: dtype)]])
  --- One step of nn.LSTM: h, c = cell(x[, h, c]).
  cell("nn.LSTMCell(input_size: int, hidden_size: int, bias = true, device?: device, dtype?: dtype)",
    "lstm")
  --- One step of nn.GRU: h = cell(x[, h]).
  cell("nn.GRUCell(input_size: int, hidden_size: int, bias = true, device?: device, dtype?: dtype)",
    "gru")
end
