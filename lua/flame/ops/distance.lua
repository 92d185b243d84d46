--- Distances and similarities of rows.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local fail, def, call = arguments.fail, arguments.def, flame.internal.call
local reduce = require "flame.ops.reduce"

--- x divided by its p-norm along dim; the norm counts as at least eps.
def("normalize(x: T, p = 2, dim: axes = 2, eps = 1e-12) -> T", function(x, p, d, eps)
  return x / x:norm(p, d, { keepdim = true }):clamp({ min = eps })
end)
--- p-norm of x - y + eps over the last axis.
def("pairwise_distance(x: T, y: T, p = 2, eps = 1e-6, keepdim = false) -> T",
  function(x, y, p, eps, keepdim)
    return (x - y + eps):norm(p, -1, { keepdim = keepdim })
  end)
--- Distances of all pairs of rows, the first with the second, third, …
def("pdist(x: T, p = 2) -> T", function(x, p)
  if x.ndim ~= 2 then fail("pdist", "x has %d axes, need 2", x.ndim) end
  local at = flame.triu_indices(x.shape[1], x.shape[1], 1, { device = x.device })
  return (x:index_select(1, at:select(1, 1)) - x:index_select(1, at:select(1, 2))):norm(p, 2)
end)
--- p-norm of x - y.
def("dist(x: T, y: T|num, p = 2) -> T", function(x, y, p) return (x - y):norm(p) end)
--- The sum of products divided by the product of the norms, along dim (2; of vectors 1); a norm
--- counts as at least eps.
def("cosine_similarity(x: T, y: T, dim?: axes, eps = 1e-8) -> T @single", function(x, y, d, eps)
  d = d or (x.ndim > 1 and 2 or 1)
  local keep = { keepdim = true }
  if table.concat(x.shape, " ") ~= table.concat(y.shape, " ") then
    x, y = table.unpack(flame.broadcast(x, y))
  end
  local m, n = reduce.root((x * x):sum(d, keep)), reduce.root((y * y):sum(d, keep))
  return (x / m:clamp({ min = eps }) * (y / n:clamp({ min = eps }))):sum(d)
end)

-- ---- edits --------------------------------------------------------------------------------------
--- The argument x as rows of ids, and the number of ids in each row: 'lengths' is a number for all
--- rows, or a list or tensor, or nil for whole rows.
local function rows_and_lengths(op, name, x, lengths)
  if arguments.need_integers(op, name, x).ndim < 1 or x.ndim > 2 then
    fail(op, "%s has %d axes, need 1 or 2", name, x.ndim)
  end
  x = (x.ndim == 1 and x:unsqueeze(1) or x):detach():long()
  local like = { dtype = "i64", device = x.device }
  if type(lengths) ~= "table" and not flame.is_tensor(lengths) then
    return x, flame.full({ x.shape[1] }, lengths or x.shape[2], like)
  end
  local list = flame.is_tensor(lengths) and lengths:detach():long():reshape(-1)
    or flame.tensor(lengths, like)
  if list:numel() ~= x.shape[1] then
    fail(op, "%s_lengths has %d numbers, %s %d rows", name, list:numel(), name, x.shape[1])
  end
  return x, list
end

--- The fewest insertions, deletions and substitutions that turn each row of ids in x (or x itself,
--- if it has one axis) into that of y; x_lengths, y_lengths: for rows shorter than the tensor.
def("edit_distance(x: T, y: T, *, x_lengths?: int|int[]|T, y_lengths?: int|int[]|T) -> T",
  function(x, y, x_lengths, y_lengths)
    local op, shape = "edit_distance", x.ndim == 1 and {} or { x.shape[1] }
    local a, n = rows_and_lengths(op, "x", x, x_lengths)
    local b, m = rows_and_lengths(op, "y", y, y_lengths)
    if x.ndim ~= y.ndim or #a ~= #b then
      fail(op, "x has shape (%s), y (%s), need as many rows", table.concat(x.shape, ", "),
        table.concat(y.shape, ", "))
    end
    return call(op, op, { a, b, n, m }, { a.shape[1], a.shape[2], b.shape[2] }, shape, "i64")
  end)
