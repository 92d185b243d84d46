-- docs.lua: the last part of docs/ops.md, every function and method with its signature and a line
-- on what it does, from tools/meta.lua. Run by tools/docs from the top of the tree.
local meta = dofile "tools/meta.lua"
local list = meta.collect()

local function cell(text) return (text:gsub("|", "\\|")) end
local function first_sentence(doc)
  local text = table.concat(doc, " ")
  if #text <= 160 then return text end
  return text:match("^(.-[%.;:]) ") or text:sub(1, 157) .. "…"
end
local function section(title, what, wanted)
  local rows = {}
  for _, e in ipairs(list) do
    if wanted(e) then
      rows[#rows + 1] = ("| `%s` | %s |"):format(cell(meta.signature(e)),
        cell(first_sentence(e.doc)))
    end
  end
  if #rows == 0 then return end
  print(("\n### %s\n\n%s\n\n| call | what it gives |\n|---|---|"):format(title, what))
  print(table.concat(rows, "\n"))
end

print("\n## All functions")
print("\nThe ops of the tables above and what is composed of them. The same texts stand in `lua/meta/flame.lua`")
print("for editors, and `help(flame.topk)` or `help(\"topk\")` prints them at the prompt. A mistake in the")
print("arguments raises an error that says what is expected: [messages](messages.md).")
print("")
print("Where types stand, they are: T a tensor, num a number, int an integer, bool, str, fn what can be called,")
print("axes an axis or a list of them, dims(n) an integer or a list of n, `[]` a list. `?` may be left out, and")
print("every parameter but the first may also be given by its name in one table at the end, those behind `*`")
print("only there.")
section("Functions and methods", "`flame.name(x, …)` and `x:name(…)`.",
  function(e) return e.kind == "both" end)
section("Functions", "`flame.name(…)`.", function(e)
  return e.kind == "function" and not meta.is_module[e.name:match("^(%w+)%.")]
end)
section("Methods", "`x:name(…)`; x stands first in the list of arguments.",
  function(e) return e.kind == "method" end)
section("Writes", "Methods that change the value of `x` and return it; also as `flame.name_(x, …)`.",
  function(e) return e.kind == "write" end)
section("Modules", "`local nn = require \"flame.nn\"`.",
  function(e) return e.name:match("^nn%.") ~= nil end)
local function methods_of(class)
  return function(e) return e.kind == "member" and e.name:match("^%w+") == class end
end
section("Calls of modules", "`net(…)`, of those that take more than one tensor.",
  function(e) return e.kind == "call" end)
section("Methods of modules", "`net:name(…)`.", methods_of "Module")
local others = {}                                      -- classes of methods that stand elsewhere
for name in ([[Module Optimizer LBFGS GradScaler Schedule ReduceOnPlateau Batches Progress
    EventWriter Plot Algebra Distribution Transform]]):gmatch("%S+") do
  others[name] = true
end
section("Methods of some modules", "`layer:name(…)`.",
  function(e) return e.kind == "member" and not others[e.name:match("^%w+")] end)
section("Optimisers", "`local optim = require \"flame.optim\"`.",
  function(e) return e.name:match("^optim%.") ~= nil end)
section("Methods of optimisers", "`opt:name(…)`.", function(e)
  return methods_of "Optimizer" (e) or methods_of "LBFGS" (e) or methods_of "GradScaler" (e)
end)
section("Methods of schedules", "`schedule:name(…)`.", function(e)
  return methods_of "Schedule" (e) or methods_of "ReduceOnPlateau" (e)
end)
section("Data", "`local data = require \"flame.data\"`.",
  function(e) return e.name:match("^data%.") ~= nil end)
section("Methods of batches", "`local it = data.batches(x, 64)`, then `it:name(…)`.",
  methods_of "Batches")
section("Methods of progress lines",
  "`local p = data.progress { steps = 1000 }`, then `p:name(…)`.", methods_of "Progress")
section("Methods of writers of event files",
  "`local w = data.tensorboard(folder)`, then `w:name(…)`.", methods_of "EventWriter")
section("Plots", "`local plot = require \"flame.plot\"`: [plots](plots.md).",
  function(e) return e.name:match("^plot%.") ~= nil end)
section("Methods of plots", "`local p = plot.new()`, then `p:name(…)`.", methods_of "Plot")
section("Clifford algebras", "`local clifford = require \"flame.clifford\"`: [clifford](clifford.md).",
  function(e) return e.name:match("^clifford%.") ~= nil end)
section("Methods of algebras", "`local A = clifford.algebra{1, 1, 1}`, then `A:name(…)`.",
  methods_of "Algebra")
section("Distributions",
  "`local distributions = require \"flame.distributions\"`: [distributions](distributions.md).",
  function(e) return e.name:match("^distributions%.") ~= nil end)
section("Methods of distributions", "`local d = distributions.Normal(0, 1)`, then `d:name(…)`.",
  methods_of "Distribution")
section("Methods of transforms", "`local t = distributions.ExpTransform()`, then `t:name(…)`.",
  methods_of "Transform")
section("Diffusion",
  "`local diffusion = require \"flame.diffusion\"`: [diffusion](diffusion.md).",
  function(e) return e.name:match("^diffusion%.") ~= nil end)
section("Methods of schedules", "`local s = diffusion.schedule()`, then `s:name(…)`.",
  methods_of "NoiseSchedule")
section("Tokenizers",
  "`local tokenizers = require \"flame.tokenizers\"`: [tokenizers](tokenizers.md).",
  function(e) return e.name:match("^tokenizers%.") ~= nil end)
section("Methods of tokenizers", "`local t = tokenizers.load(\"tokenizer.json\")`, then `t:name(…)`.",
  methods_of "Tokenizer")
section("Methods of streams", "`local s = t:stream()`, then `s:name(…)`.", methods_of "TokenStream")
section("Images", "`local image = require \"flame.image\"`.",
  function(e) return e.name:match("^image%.") ~= nil end)

print([[

## Where flame differs from PyTorch

- Positions count from 1 and ends are inclusive: axes, indices, ids, labels, `arange`, `randint`, `narrow`, results of
  `argmax`, `sort`, `topk`, `nonzero`, `searchsorted`. Offsets (`diagonal(k)`, `roll(n)`) are as they are.
- A write to a view raises; results of functions never share memory with their arguments as far as a script can see.
- Numbers given to `flame.tensor` are f32 whatever their subtype; `sum`, `prod` and `cumsum` of bool and integers give i64.
- Integers divided by zero give 0; float to integer saturates, and NaN gives 0.
- `sign` of NaN is NaN. Of equal elements the first position wins in `max(d)`, `min(d)`, `sort`, `topk`, `kthvalue`, `median(d)`,
  `cummax` and `cummin`.
- `amax`, `amin`, `maximum` and `minimum` share the gradient among equal elements, as PyTorch's do; `max(d)` sends it to the one
  whose position it returns.
- `floordiv` has the gradient 0, as `floor` and its kin have; PyTorch raises.
- Where all is -inf, the gradient of `logsumexp` is 0 and that of `logaddexp` a half each, where PyTorch's is NaN.
- The gradient of `xlogy` and `xlog1py` at 0 and of `entr` at 0 and below is 0 where PyTorch's is NaN or infinite. That of
  `det` of a singular matrix is the cofactors, where PyTorch's is 0.
- Gradients go to what the result depends on: of `cholesky_solve` and `cholesky_inverse` to one triangle, of `max_unpool`
  to the write that stays, of `ctc_loss` by the log-probabilities as they are (behind `log_softmax` both are the same).
- `binary_cross_entropy` of an input outside 0 to 1 and `gaussian_nll_loss` of a variance below 0 are NaN, where PyTorch
  raises: they would have to read the values.
- Operands of different dtypes are promoted, also where PyTorch wants them alike: `matmul`, `dot`, `addmm`, `cross`, `meshgrid`,
  `isclose`, `sub` with bool. A float number beside integers gives f32, also as `alpha`, `beta` and `value`. Booleans are no
  operands: `x:eq(1)`.
- `default_dtype` (PyTorch's `set_default_dtype`) is that of new tensors alone: `/` of integers and a float number beside
  integers give f32 whatever it is.
- `ldl_factor`, `ldl_solve`, `histogram`, `histogramdd`, `bincount`, `poisson` and `binomial` look at values, and so evaluate; the first
  four have no gradient.
- `hardswish` has the slope 0 at -3 and 1 at 3. With include_self = false, `scatter_reduce` shares the
  gradient of the largest and the smallest among the elements of src alone.
- Where the correction leaves no element, the gradient of `var` is infinite or NaN, whatever the correction; PyTorch's is that
  of the formula for a correction above the number of elements, and without an axis positive.
- Where an input is NaN, the values are NaN as PyTorch's; the slopes of piecewise functions there are those of one of their pieces,
  not always the same one: `relu` 0 (PyTorch 1), `hardsigmoid` 1/6 (0), `elu` NaN (1).
- `ctc_loss` of a target that cannot be reached has the gradient 0, where PyTorch's is NaN.
- `copy_` casts to the dtype of what is written, as PyTorch's; the other writes refuse a result that does not fit.
- `repeat` is a word of Lua: `tile`.
- `torch.fft.rfft` is `flame.rfft`, and so with its kin: `flame.fft` is the transform. A complex number is a last axis of two.
- `lu` always pivots; `linalg.eig` and other functions with complex results are not there.]])
