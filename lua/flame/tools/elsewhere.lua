--- What to write instead of PyTorch's names that flame does not have: texts for the message about
--- an unknown name, which follow "nn has no 'functional': ".
local dtypes = { FloatTensor = "f32", DoubleTensor = "f64", HalfTensor = "f16", LongTensor = "i64",
  IntTensor = "i32", ShortTensor = "i16", CharTensor = "i8", ByteTensor = "u8", BoolTensor = "bool",
  BFloat16Tensor = "bf16" }

local functions = "its functions are flame's: write flame.relu(x)"
local complex = "a complex number is a last axis of two: write flame.stack({re, im}, -1)"
local planned = "nothing is compiled by hand: what is recorded is planned and fused by itself"
local symmetric = "write flame.linalg.eigh(x), for symmetric matrices"
local dense = "every tensor is dense: write index_add or scatter_add for sums over edges"
local names = {
  flame = {
    Tensor = "write flame.tensor({1, 2})",
    dtype = "a dtype is a word: write {dtype = \"f32\"} or x:to(\"f32\")",
    from_numpy = "write flame.load(\"x.npy\")",
    manual_seed_all = "write flame.seed(n)",
    compile = planned, jit = planned,
    complex = complex, view_as_complex = complex, view_as_real = complex, polar = complex,
    functional = functions, F = functions,
    amp = "write flame.autocast(\"bf16\", function() … end), and optim.GradScaler()",
    utils = "write flame.nn.utils, and flame.data for batches",
    Generator = "write flame.seed(n); flame.rng_state() keeps and restores it",
    Size = "write a table, {2, 3}; x.shape is one",
    range = "write flame.arange(first, last): the last is included",
    set_num_threads = "set FLAME_THREADS in the environment",
    get_num_threads = "set FLAME_THREADS in the environment",
    set_float32_matmul_precision = "write flame.tf32(true)",
    backends = "write flame.tf32(true) for its allow_tf32, flame.deterministic(true) for cudnn's",
    matrix_rank = "write flame.linalg.matrix_rank(x)",
    triangular_solve = "write flame.linalg.solve_triangular(a, b)",
    symeig = "write flame.linalg.eigh(x)", eig = symmetric,
    frombuffer = "write flame.from_bytes(text, shape, dtype)",
    finfo = "write the number: eps is 2^-23 in f32, 2^-52 in f64",
    iinfo = "write the number: the largest is 2^31 - 1 in i32, math.maxinteger in i64",
    lstm = "write flame.nn.LSTM(inputs, units)", gru = "write flame.nn.GRU(inputs, units)",
    sparse_coo_tensor = dense, sparse_csr_tensor = dense,
    use_deterministic_algorithms = "write flame.deterministic(true)",
  },
  nn = {
    F = functions,
    DataParallel = "a process uses one device: write flame.distributed.data_parallel(net)",
  },
  linalg = { eig = symmetric, eigvals = "write flame.linalg.eigvalsh(x), for symmetric matrices" },
  optim = {
    swa_utils = "write flame.nn.AveragedModel(net)",
    clip_grad_norm_ = "write optim.clip_grad_norm(params, max_norm)",
    clip_grad_value_ = "write optim.clip_grad_value(params, c)",
  },
  data = {
    DataLoader = "write data.loader(dataset, {size = 32, shuffle = true}), or data.batches({x, y}) of tensors",
    TensorDataset = "write data.batches({x, y}, {size = 32})",
    Dataset = "write data.dataset(n, function(i) … end)",
    random_split = "write data.split(dataset, {0.8, 0.2})",
    ImageFolder = "write data.images(folder)",
    SummaryWriter = "write data.tensorboard(folder)",
    tqdm = "write data.progress{steps = n}",
  },
  plot = {
    plot = "write plot.line(x, y)", bar = "write plot.bars(names, y)",
    hist = "write plot.histogram(x)",
    imshow = "write plot.image(x), or plot.heatmap(x)", contourf = "write plot.contour(z)",
    figure = "write plot.new{width = 640}", subplots = "write plot.grid{p, q}",
    show = "write print(p)", savefig = "write p:save(\"x.svg\")",
  },
  image = { open = "write image.load(path)", write = "write image.save(path, x)",
    imread = "write image.load(path)", imwrite = "write image.save(path, x)" },
  cuda = {
    synchronize = "write flame.synchronize()",
    empty_cache = "write flame.empty_cache()",
    manual_seed = "write flame.seed(n)", manual_seed_all = "write flame.seed(n)",
    memory_allocated = "write flame.memory().allocated",
    memory_reserved = "write flame.memory().reserved",
    max_memory_allocated = "write flame.memory().peak",
    reset_peak_memory_stats = "write flame.memory(\"reset_peak\")",
    get_device_name = "flame.info() tells it",
    current_device = "write flame.default_device()",
    set_device = "write flame.default_device(\"cuda:0\")",
    amp = "write flame.autocast(\"f16\", function() … end)",
  },
  autograd = {
    Function = "write flame.func{forward = …, backward = …}",
    backward = "write y:backward()",
    gradcheck = "write flame.gradcheck(f, inputs)",
    functional = "write flame.jacobian(f, x), flame.hessian, flame.vjp or flame.jvp",
    detect_anomaly = "write flame.autograd.anomaly(true)",
    set_detect_anomaly = "write flame.autograd.anomaly(true)",
  },
}
for name, dtype in pairs(dtypes) do
  names.flame[name] = ("write flame.tensor({1, 2}, {dtype = \"%s\"})"):format(dtype)
end
return names
