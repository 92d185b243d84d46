--- flame.generate: text from a model that scores the next token. The file returns a function that
--- takes the helpers of models/parts.lua and the table of flame.models, and adds 'generate' to
--- it.
--
--- All sequences of a batch share one cache of keys and values. Shorter sequences are padded at the
--- front, with positions that are masked.
local flame = require "flame"
local nn = require "flame.nn"
local internal = flame.internal
local arguments = require "flame.base.arguments"

return function(parts, models)
  local OP <const> = "generate"
  local function fail(message, ...) parts.fail(OP, message, ...) end

  -- ---- arguments -------------------------------------------------------------------------------
  local function encoded(o, text)
    if not o.tokenizer then fail("ids is a text\1: give tokenizer = one") end
    local ids = o.tokenizer:encode(text)
    return flame.is_tensor(ids) and ids:totable() or ids
  end
  --- One sequence of ids as a list.
  local function row_of(o, v, name)
    if type(v) == "string" then return encoded(o, v) end
    if flame.is_tensor(v) then
      if arguments.need_integers(OP, name, v).ndim ~= 1 then
        fail("%s has %d axes, need 1", name, v.ndim)
      end
      return v:totable()
    end
    if type(v) ~= "table" then fail("%s must be ids or a text, got %s", name, arguments.word(v)) end
    return v
  end
  --- The rows of the tensor ids (batch, time) as lists, without the positions where the mask is 0.
  local function rows_of_tensor(ids, mask)
    arguments.need_integers(OP, "ids", ids)
    if ids.ndim ~= 2 then fail("ids has %d axes, need 1 or 2 (batch, time)", ids.ndim) end
    local all, seen = ids:totable(), parts.need_mask(OP, mask, ids)
    if not seen then return all end
    seen = seen:totable()
    local rows = {}
    for i, row in ipairs(all) do
      rows[i] = {}
      for k, id in ipairs(row) do if seen[i][k] then table.insert(rows[i], id) end end
    end
    return rows
  end
  --- The sequences to continue, from the argument ids: as lists of ids; whether it was a single
  --- sequence and not a list of them; and a list that says which were given as text.
  local function rows_of(ids, o)
    if flame.is_tensor(ids) and ids.ndim ~= 1 then
      return rows_of_tensor(ids, o.attention_mask), false, {}
    end
    if o.attention_mask then fail "attention_mask needs ids of 2 axes (batch, time)" end
    local one = type(ids) ~= "table" or math.type(ids[1]) ~= nil
    local list, rows, texts = one and { ids } or ids, {}, {}
    for i, v in ipairs(list) do
      rows[i] = row_of(o, v, one and "ids" or ("ids[%d]"):format(i))
      texts[i] = type(v) == "string"
    end
    return rows, one, texts
  end
  local function check_rows(rows, vocabulary)
    if #rows == 0 then fail "ids has no sequences" end
    for i, row in ipairs(rows) do
      if #row == 0 then fail("sequence %d has no tokens, need at least 1", i) end
      for _, id in ipairs(row) do
        if not math.tointeger(id) or id < 0 or id >= vocabulary then
          fail("sequence %d has id %s, the model has 0 to %d", i, tostring(id), vocabulary - 1)
        end
      end
    end
  end

  --- Ids and words that end a sequence.
  local function stops_of(o, config)
    local stop, ids, words = o.stop, {}, {}
    if stop == nil then stop = config.eos_token_id end
    if type(stop) ~= "table" then stop = { stop } end
    for i, v in ipairs(stop) do
      if math.tointeger(v) then ids[math.tointeger(v)] = true
      elseif type(v) ~= "string" or v == "" then
        fail("stop[%d] is %s, need an id or a text", i, arguments.word(v))
      elseif not o.tokenizer then fail("stop[%d] is a text\1: give tokenizer = one", i)
      else words[#words + 1] = v end
    end
    return ids, words
  end

  local function check_options(o)
    local function need(name, ok, what)
      if o[name] and not ok(o[name]) then fail("%s is %g, need %s", name, o[name], what) end
    end
    local function share(v) return v > 0 and v <= 1 end
    local function above(v) return v > 0 and v < math.huge end
    need("max_new_tokens", function(v) return v >= 1 end, "at least 1")
    need("temperature", function(v) return v >= 0 and v < math.huge end, "a number of at least 0")
    need("top_k", function(v) return v >= 1 end, "at least 1")
    need("top_p", share, "a number above 0, at most 1")
    need("min_p", share, "a number above 0, at most 1")
    need("repetition_penalty", above, "a number above 0")
    for _, name in ipairs { "top_k", "top_p", "min_p" } do
      if o[name] and o.temperature == 0 then
        fail("%s has no effect at temperature 0\1; give temperature = 1", name)
      end
    end
  end

  -- ---- the next token ---------------------------------------------------------------------------
  --- Scores (batch, vocabulary), lowered for tokens that occurred before (mask 'before').
  local function penalised(scores, before, penalty)
    return scores:where(before:logical_not(),
      (scores * penalty):where(scores:lt(0), scores / penalty))
  end
  --- The position (batch, 1), from 0, of the largest element of each row; -1 if that element is not
  --- above 'least' or not finite. Nothing is read from the device.
  local function largest(rows, least)
    local most, at = rows:max(2, true)
    return (at - 1):masked_fill(most:gt(least):logical_and(most:lt(math.huge)):logical_not(), -1)
  end
  --- The ids (batch, 1), from 0, of the next tokens; -1 where the scores are not numbers.
  local function pick(scores, o, before)
    scores = scores:float()
    if before then scores = penalised(scores, before, o.repetition_penalty) end
    if o.temperature == 0 then return largest(scores, -math.huge) end
    scores = scores / o.temperature
    local at
    if o.top_k then scores, at = scores:topk(math.min(o.top_k, scores:size(2)), 2)
    elseif o.top_p then scores, at = scores:sort(2, true) end
    local p = scores:softmax(2)
    local all = p
    if o.top_p then p = p:masked_fill((all:cumsum(2) - all):ge(o.top_p), 0) end
    if o.min_p then p = p:masked_fill(all:lt(all:amax(2, true) * o.min_p), 0) end
    -- the class with the largest p / e, for independent exponential numbers e, is a draw with
    -- probabilities p; half the sum of two squared normal numbers is an exponential number
    local a, b = flame.randn_like(p), flame.randn_like(p)
    local drawn = largest(p / (a * a + b * b + 1e-30), 0)
    if not at then return drawn end
    return (at:gather(2, drawn:clamp(0) + 1) - 1):masked_fill(drawn:lt(0), -1)
  end

  --- The length of a cache for this many positions. It is rounded up to one of few lengths (above
  --- 256 by less than a half), so that most calls find the plans and kernels of earlier calls.
  local function room_for(length)
    local unit = 64
    while unit * 4 < length do unit = unit * 2 end
    return (length + unit - 1) // unit * unit
  end
  --- Makes the function step(ids), which runs the model on the next ids of a batch and returns the
  --- scores after the last position. Without a cache each step runs all ids so far.
  local function runner(model, mask, cached, length, batch)
    local cache = cached and model:cache(batch, room_for(length)) or nil
    local so_far
    return function(ids)
      local o = { attention_mask = mask, cache = cache, logits_to_keep = 1 }
      if cache then mask = nil
      else
        so_far = so_far and flame.cat({ so_far, ids }, 2) or ids
        if mask and so_far ~= ids then
          mask = flame.cat({ mask, flame.ones_like(ids):bool() }, 2)
          o.attention_mask = mask
        end
        ids = so_far
      end
      return model(ids, o):select(2, 1)
    end
  end

  -- ---- output ----------------------------------------------------------------------------------
  --- Where in the text, from 'at' on, the first occurrence of one of the words begins.
  local function first_of(words, text, at)
    local found
    for _, word in ipairs(words) do
      local i = text:find(word, at, true)
      if i and (not found or i < found) then found = i end
    end
    return found
  end
  --- How many bytes at the end of the text may be the beginning of one of the (stop) words.
  local function maybe(words, text)
    local most = 0
    for _, word in ipairs(words) do
      for n = math.min(#word - 1, #text), most + 1, -1 do
        if text:sub(-n) == word:sub(1, n) then
          most = n
          break
        end
      end
    end
    return most
  end

  local Row = {}
  Row.__index = Row
  local function new_row(o, words, index)
    local longest = 0
    for _, word in ipairs(words) do longest = math.max(longest, #word) end
    return setmetatable({ ids = {}, text = "", sent = 0, words = words, longest = longest,
      index = index, stream = o.stream, decoder = o.tokenizer and o.tokenizer:stream() }, Row)
  end
  --- Passes text up to 'last' to the script's function; sets 'refused' if that returns false.
  function Row:send(last)
    if not self.stream or last <= self.sent then return end
    local piece = self.text:sub(self.sent + 1, last)
    self.sent = last
    if self.stream(piece, self.index) == false then self.refused = true end
  end
  --- Appends text to the row; if a stop word occurs, cuts the text there and ends the row.
  function Row:add(piece)
    local before = #self.text
    self.text = self.text .. piece
    local at = first_of(self.words, self.text, math.max(1, before - self.longest + 2))
    if at then
      self.text, self.done = self.text:sub(1, at - 1), true
      self:send(at - 1)
    end
  end
  function Row:take(id, stops)
    if id < 0 then
      fail("the scores after token %d of sequence %d are NaN or infinite; check the model's weights",
        #self.ids, self.index)
    end
    if stops[id] then return self:finish() end
    self.ids[#self.ids + 1] = id
    if not self.decoder then
      if self.stream and self.stream(id, self.index) == false then self.refused = true end
      return
    end
    self:add(self.decoder:put(id))
    if not self.done then self:send(#self.text - maybe(self.words, self.text)) end
  end
  function Row:finish()
    if self.decoder then self:add(self.decoder:finish()) end
    self.done = true
    self:send(#self.text)
  end

  -- ---- flame.generate --------------------------------------------------------------------------
  --- The sequences as the rows of a tensor, aligned at the end, and the attention mask (nil if all
  --- have one length). Shorter rows are padded at the front with their own first id.
  local function batch_of(rows, device)
    local longest, uneven = 0, false
    for _, row in ipairs(rows) do longest = math.max(longest, #row) end
    local ids, mask = {}, {}
    for i, row in ipairs(rows) do
      ids[i], mask[i] = {}, {}
      for k = 1, longest do
        local own = k - (longest - #row)
        ids[i][k], mask[i][k] = row[math.max(own, 1)], own >= 1
        uneven = uneven or own < 1
      end
    end
    return flame.tensor(ids, { dtype = "i64", device = device }),
      uneven and flame.tensor(mask, { dtype = "bool", device = device }) or nil, longest
  end

  local Undo = { __close = function(list) for i = #list, 1, -1 do list[i]() end end }
  --- Sets evaluation mode and the seed, if given; 'undo' gets functions that restore both.
  local function prepare(undo, model, seed)
    if model.training then
      local trained = {}
      for _, m in ipairs(model:modules()) do if m.training then trained[#trained + 1] = m end end
      model:eval()
      undo[1] = function() for _, m in ipairs(trained) do rawset(m, "training", true) end end
    end
    if seed then
      local state = flame.rng_state()
      flame.seed(seed)
      undo[#undo + 1] = function() flame.rng_state(state) end
    end
  end

  --- Adds the new tokens to their rows; true: all have ended, or 'stream' refused.
  local function deliver(rows, ids, stops)
    local done = true
    for i, row in ipairs(rows) do
      if not row.done then row:take(ids[i][1], stops) end
      if row.refused then return true end
      done = done and row.done
    end
    return done
  end

  local function run(model, rows, o, stops, words)
    local device = model:parameters()[1].device
    local ids, mask, longest = batch_of(rows, device)
    local step = runner(model, mask, o.cache, longest + o.max_new_tokens, #rows)
    local before, out = nil, {}
    if o.repetition_penalty ~= 1 then
      before = flame.zeros({ #rows, model.lm_head.weight:size(1) },
        { dtype = "bool", device = device }):scatter(2, ids + 1, true)
    end
    for i = 1, #rows do out[i] = new_row(o, words, i) end
    --- The tokens (batch, 1) that follow the ids 'given'. The scores are released at once, so each
    --- step on a GPU gets the memory of the step before and can run as the same CUDA graph.
    local function after(given)
      local new = pick(step(given:clamp(0)), o, before)
      if before then before = before:scatter(2, new:clamp(0) + 1, true) end
      return new
    end
    local new, ahead = after(ids), device ~= "cpu"
    flame.eval(new)
    for n = 1, o.max_new_tokens do
      local drawn, following = flame.rng_state(), nil
      -- On a GPU the next step is recorded while this one still runs, and started before its tokens
      -- are delivered, so that it runs meanwhile. Only the first token is delivered before that,
      -- since it would otherwise wait for the plan of the second step.
      if ahead and n < o.max_new_tokens then following = after(new) end
      local given = new:totable()
      if following and n > 1 then flame.eval(following) end
      if deliver(out, given, stops) or n == o.max_new_tokens then
        if following then flame.rng_state(drawn) end
        break
      end
      new = following or after(new)
      flame.eval(new)
    end
    for _, row in ipairs(out) do if not row.done and not row.refused then row:finish() end end
    return out, device
  end

  function internal.generate(model, ids, o)
    if not nn.is(model, models.CausalLM) then
      fail("model is %s, need a model of flame.models that scores the next token",
        nn.is(model, nn.Module) and "a " .. getmetatable(model).__name or arguments.word(model))
    end
    check_options(o)
    local given, one, texts = rows_of(ids, o)
    check_rows(given, model.lm_head.weight:size(1))
    local stops, words = stops_of(o, model.config)
    local most = math.tointeger(model.config.n_positions)
    for _, row in ipairs(given) do
      if most and #row + o.max_new_tokens > most then
        fail("%d tokens and %d new ones do not fit the model's %d positions (n_positions)", #row,
          o.max_new_tokens, most)
      end
    end
    local undo <close> = setmetatable({}, Undo)
    prepare(undo, model, o.seed)
    local rows, device = flame.no_grad(run, model, given, o, stops, words)
    local out = {}
    for i, row in ipairs(rows) do
      out[i] = texts[i] and row.text
        or flame.tensor(row.ids, { dtype = "i64", device = device })
    end
    return one and out[1] or out
  end
end
