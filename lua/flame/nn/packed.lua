--- Sequences of different lengths for the recurrent layers: the functions of torch.nn.utils.rnn. A
-- packed sequence is a table of data (the first steps of all sequences, then the second ones, …),
-- batch_sizes (number of sequences at each step), and sorted_indices and unsorted_indices, which
-- map the given order to the order by decreasing length and back. The file returns a function that
-- adds to nn.utils.
local flame = require "flame"

return function(nn, shared)
  local utils, fail, put = nn.utils, shared.fail, shared.put
  local Packed = { __name = "flame.nn.PackedSequence" }

  local function is_packed(x) return getmetatable(x) == Packed end
  shared.is_packed = is_packed

  local function positions(list, device)
    return flame.tensor(list, { dtype = "i64", device = device })
  end

  -- The lengths as a list; raises unless they are n integers from 1 to 'most'.
  local function lengths_of(op, lengths, n, most)
    local list = flame.is_tensor(lengths) and lengths:totable() or lengths
    if #list ~= n then fail("%s: lengths must be %d numbers", op, n) end
    for i, l in ipairs(list) do
      if math.type(l) ~= "integer" or l < 1 or l > most then
        fail("%s: lengths[%d] = %s, need 1 to %d", op, i, tostring(l), most)
      end
    end
    return list
  end

  -- Packs x (steps, n, …): leaves out the elements after the end of each sequence. sorted: raises
  -- unless the sequences are in the order of falling lengths.
  local function pack(op, x, lengths, sorted)
    local order, place, sizes, parts = {}, {}, {}, {}
    for i = 1, #lengths do order[i] = i end
    table.sort(order, function(a, b)
      if lengths[a] ~= lengths[b] then return lengths[a] > lengths[b] end
      return a < b
    end)
    for k, i in ipairs(order) do
      if sorted and k ~= i then
        fail("%s: lengths do not fall\1: sort them, or {enforce_sorted = false}", op)
      end
      place[i] = k
    end
    local idx = positions(order, x.device)
    if not sorted then x = x:index_select(2, idx) end
    for t = 1, lengths[order[1]] do
      local n = 0
      for _, l in ipairs(lengths) do if l >= t then n = n + 1 end end
      sizes[t], parts[t] = n, x[t]:narrow(1, 1, n)
    end
    return setmetatable(
      { data = flame.cat(parts, 1), batch_sizes = positions(sizes, "cpu"), sorted_indices = idx,
      unsorted_indices = positions(place, x.device) }, Packed)
  end

  --- Packs x (steps, n, …), n sequences that are padded after these lengths (a tensor or a list).
  --- It raises if a length is above the one before, unless enforce_sorted is false.
  put(utils, [[nn.utils.pack_padded_sequence(x: T, lengths: T|int[], batch_first = false,
    enforce_sorted = true) -> PackedSequence]], function(x, lengths, batch_first, sorted)
    local op = "pack_padded_sequence"
    if x.ndim < 2 then fail("%s: x has %d axes, need 2 or more", op, x.ndim) end
    if batch_first then x = x:transpose(1, 2) end
    if x.shape[2] < 1 then fail("%s: there are no sequences", op) end
    return pack(op, x, lengths_of(op, lengths, x.shape[2], x.shape[1]), sorted)
  end)

  --- Packs a list of sequences (t, …).
  put(utils, "nn.utils.pack_sequence(sequences: T[], enforce_sorted = true) -> PackedSequence",
    function(list, enforce_sorted)
      local lengths = {}
      for i, x in ipairs(list) do lengths[i] = #x end
      return utils.pack_padded_sequence(utils.pad_sequence(list), lengths,
        { enforce_sorted = enforce_sorted })
    end)

  --- The inverse of packing: (steps, n, …) in the original order, padded, and the lengths (i64).
  put(utils, [[nn.utils.pad_packed_sequence(packed: PackedSequence, batch_first = false,
    padding_value = 0, total_length?: int) -> T, lengths: T]],
    function(packed, batch_first, padding_value, total_length)
    local op = "pad_packed_sequence"
    local sizes, at, steps, lengths = packed.batch_sizes:totable(), 1, {}, {}
    local n, tail = sizes[1], packed.data.shape
    if total_length and total_length < #sizes then
      fail("%s: total_length = %d, there are %d steps", op, total_length, #sizes)
    end
    for i = 1, n do lengths[i] = 0 end
    for t = 1, total_length or #sizes do
      local here = sizes[t] or 0
      tail[1] = n - here
      local rest = flame.full(tail, padding_value,
        { dtype = packed.data.dtype, device = packed.data.device })
      steps[t] = here == 0 and rest or here == n and packed.data:narrow(1, at, n)
        or flame.cat({ packed.data:narrow(1, at, here), rest }, 1)
      at = at + here
      for i = 1, here do lengths[i] = t end
    end
    local y = flame.stack(steps):index_select(2, packed.unsorted_indices)
    return batch_first and y:transpose(1, 2):clone() or y,
      positions(lengths, "cpu"):index_select(1, packed.unsorted_indices:cpu())
  end)

  --- The sequences of a padded tensor as a list.
  put(utils, "nn.utils.unpad_sequence(x: T, lengths: T|int[], batch_first = false) -> T[]",
    function(x, lengths, batch_first)
    if not batch_first then x = x:transpose(1, 2) end
    local list = {}
    for i, l in ipairs(lengths_of("unpad_sequence", lengths, x.shape[1], x.shape[2])) do
      list[i] = x[i]:narrow(1, 1, l):clone()
    end
    return list
  end)

  --- The sequences of a packed sequence as a list.
  put(utils, "nn.utils.unpack_sequence(packed: PackedSequence) -> T[]",
    function(packed) return utils.unpad_sequence(utils.pad_packed_sequence(packed)) end)

  --- Applies f to a packed sequence in padded form and packs the result: f(x, masks) gives y and
  --- states; masks[step] (n, 1) tells which sequences have an element at the step.
  function shared.over_packed(packed, f)
    local x, lengths = utils.pad_packed_sequence(packed)
    local reach, masks = lengths:to(x.device):unsqueeze(2), {}
    for t = 1, x.shape[1] do masks[t] = reach:ge(t) end
    local y, last = f(x, masks)
    return pack("pack", y, lengths:totable(), false), last
  end
end
