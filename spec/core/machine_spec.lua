-- The messages that users get when a GPU can not be used. Each case is a machine: a folder
-- (FLAME_TEST_MACHINE) with copies of the fake driver under the names of the libraries that are
-- installed on it, and files by which WSL2 and containers are recognised. FAKE_CUDA says how the
-- driver behaves (spec/c/fake_cuda.c).

local interpreter = dofile("spec/support/interpreter.lua")
local build = interpreter:match("^(.*)/[^/]*$")

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end
local function sh(...) assert(os.execute((table.concat({ ... }, " ")))) end

local all = { "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libcufft.so.12",
  "libcusolver.so.12", "libcublas.so.13", "libcudnn.so.9", "libnccl.so.2", "libnvidia-ml.so.1" }

--- All libraries except those named.
local function without(...)
  local left, gone = {}, {}
  for _, name in ipairs { ... } do gone[name] = true end
  for _, name in ipairs(all) do if not gone[name] then left[#left + 1] = name end end
  return left
end

local root

--- Makes the folder again, with these libraries (copies of 'from') and files (path = text).
local function machine(libraries, files, from)
  sh("rm -rf", root, "&& mkdir", root)
  from = from or build .. "/spec/fake_cuda.so"
  for _, name in ipairs(libraries) do sh("cp", quote(from), root .. "/" .. name) end
  for path, text in pairs(files or {}) do
    sh("mkdir -p", root .. "/" .. (path:match "^(.*)/" or ""))
    local f <close> = assert(io.open(root .. "/" .. path, "w"))
    f:write(text)
  end
end

--- Runs flame-lua on the machine: its output and status. fake: value of FAKE_CUDA.
local function run(arguments, fake, environment)
  local pipe = assert(io.popen(("env -u CUDA_VISIBLE_DEVICES -u FLAME_DEVICE FLAME_CACHE_DIR=off %s "
    .. "FLAME_TEST_MACHINE=%s FAKE_CUDA=%s %s %s 2>&1"):format(environment or "", root,
    quote(fake or ""), quote(interpreter), arguments)))
  local text = pipe:read "a"
  local ok, _, status = pipe:close()
  return (text:gsub(root:gsub("%p", "%%%0") .. "/", "ROOT/")), ok and 0 or status
end

--- Runs a script; what it prints.
local function script(text, ...) return (run("-e " .. quote(text), ...)) end

local function has(text, ...)
  for _, part in ipairs { ... } do
    assert.truthy(text:find(part, 1, true), part .. "\nin\n" .. text)
  end
end

local to_device = "print(pcall(function() return flame.ones(2):to('cuda'):sum():item() end))"
local wsl = { ["proc/sys/kernel/osrelease"] = "5.15.153.1-microsoft-standard-WSL2\n" }
local container = { [".dockerenv"] = "" }

before_each(function()
  root = os.tmpname()
  os.remove(root)
end)
after_each(function() sh("rm -rf", root) end)

describe("a step that was rehearsed", function()
  it("compiles nothing at its first run", function()
    machine(all)
    local text = script [[
local nn, optim = require "flame.nn", require "flame.optim"
local net = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)):to "cuda"
local opt = optim.AdamW(net:parameters(), { lr = 1e-3 })
local x = flame.randn(8, 32):to "cuda"
flame.eval(x)
local function step()
  opt:zero_grad()
  local loss = net(x):square():mean()
  loss:backward()
  opt:step()
  return loss
end
local made = flame.warmup(step)
print(made.plans > 0, made.compiles > 1)
flame.stats "reset"
step():item()
print(flame.stats().compiles, flame.stats().plans, flame.stats().launches > 0)]]
    assert.equal("true\ttrue\n0\t0\ttrue\n", text)
  end)
end)

describe("memory of libraries", function()
  it("is listed apart: of the workspace, cuBLASLt's and what launches share", function()
    machine(all)
    local text = script [[
local before = flame.memory "cuda"
local x = flame.ones(1024, 1024):to "cuda"
flame.eval(x:matmul(x))
local m, cpu = flame.memory "cuda", flame.memory "cpu"
print(before.products, m.products, m.workspace >= m.products + m.scratch, m.scratch >= 0)
print(cpu.products, cpu.scratch)]]
    assert.equal("0\t33554432\ttrue\ttrue\n0\t0\n", text)
  end)
end)

describe("the block of facts", function()
  it("names each library with its version and file, and the card", function()
    machine(all)
    local text, status = run("--info")
    assert.equal(0, status, text)
    has(text, "cuda: 1 device\n",
      "[CUDA Info] driver: 580.65.06, CUDA 13.0, 1 device, ROOT/libcuda.so.1\n",
      "[CUDA Info] nvrtc: 13.0, ROOT/libnvrtc.so.13\n",
      "[CUDA Info] cublaslt: 13.0.0, ROOT/libcublasLt.so.13\n",
      "[CUDA Info] cufft: 12.0.0, ROOT/libcufft.so.12\n",
      "[CUDA Info] cusolver: 12.0.4, ROOT/libcusolver.so.12\n",
      "[CUDA Info] cudnn: 9.10.2, ROOT/libcudnn.so.9\n",
      "[CUDA Info] nccl: 2.27.3, ROOT/libnccl.so.2\n",
      "[CUDA Info] nvml: ROOT/libnvidia-ml.so.1\n",
      "[CUDA Info] cuda:0: Fake 0, compute capability 9.0, 132 multiprocessors, 1.0 GiB\n",
      "[CUDA Info] cuda:0: 1.0 of 1.0 GiB free, 0 processes on it\n")
  end)

  it("is what the debug switch writes", function()
    machine(all)
    has(script("print(1)", nil, "DEBUG_CUDA=1"), "[CUDA Info] driver: 580.65.06, CUDA 13.0",
      "[CUDA Warning] cuda:0: the self-test failed: ", "\n1\n")
  end)

  it("tells a self-test that failed with what to try", function()
    machine(all)                                  -- the fake's kernels write nothing
    local fact = "element 1 of 2.5 x + y is 0.0, not 3.5; run it with FLAME_CACHE_DIR=off and with "
      .. "another driver, and report the lines of flame-lua --info\n"
    has(run "--info", "[CUDA Warning] cuda:0: the self-test failed: " .. fact)
    local text, status = run "--doctor"
    has(text, "WRONG   self-test cuda:0   " .. fact, "1 thing is wrong")
    assert.equal(1, status)
  end)

  it("tells of MIG, other processes and errors of the memory", function()
    machine(all)
    local text = run("--info", "mig=1 ecc=3 processes=2 hidden=1000")
    has(text, "[CUDA Warning] cuda:0: 0.0 of 1.0 GiB free, 2 processes on it: 4000, 4001; end other "
      .. "processes, or choose another card by CUDA_VISIBLE_DEVICES\n",
      "[CUDA Info] cuda:0: in MIG mode: a process has one instance, with its part of the card; "
      .. "choose another by CUDA_VISIBLE_DEVICES=MIG-… of nvidia-smi -L\n",
      "[CUDA Warning] cuda:0: 3 memory errors that ECC could not correct since the driver was "
      .. "loaded; end all programs on it and run nvidia-smi -r, and replace a card where they "
      .. "return\n")
    has(run("--info", "processes=100"), "1.0 of 1.0 GiB free, 100 processes on it\n")
  end)

  it("does without NVML", function()
    machine(without "libnvidia-ml.so.1")
    local text = run "--info"
    has(text, "[CUDA Info] driver: CUDA 13.0, 1 device, ROOT/libcuda.so.1\n",
      "[CUDA Warning] nvml: libnvidia-ml.so.1 not found (install the driver's NVML (package "
      .. "libnvidia-ml1)); looked for: libnvidia-ml.so.1, /usr/lib/wsl/lib/libnvidia-ml.so.1\n")
    assert.falsy(text:find("GiB free", 1, true), text)
    has(run "--doctor", "absent  nvml")
  end)
end)

describe("a library that is not there", function()
  it("is told with what it is for and where it was looked for", function()
    for _, case in ipairs {
        { "libcufft.so.12", "cufft: libcufft.so.12 not found (install cuFFT (package libcufft); our "
          .. "own kernels serve); looked for: libcufft.so.12, libcufft.so.11, "
          .. "/usr/local/cuda/lib64/libcufft.so.12, /usr/local/cuda/lib64/libcufft.so.11, "
          .. "libcufft.so\n" },
        { "libcusolver.so.12", "cusolver: libcusolver.so.12 not found (install cuSOLVER (package "
          .. "libcusolver); matrix calls go over the host); looked for: " },
        { "libcublas.so.13", "cublas: libcublas.so.13 not found (install cuBLAS (package "
          .. "libcublas); matrix calls go over the host); looked for: " },
        { "libcudnn.so.9", "cudnn: libcudnn.so.9 not found (install cuDNN (package libcudnn9); our "
          .. "own kernels serve); looked for: libcudnn.so.9, "
          .. "/usr/local/cuda/lib64/libcudnn.so.9\n" },
        { "libnccl.so.2", "nccl: libnccl.so.2 not found (install NCCL (package libnccl2); several "
          .. "GPUs alone need it); looked for: libnccl.so.2, " },
    } do
      machine(without(case[1]))
      has(run "--info", "[CUDA Warning] " .. case[2])
      has(run "--doctor", "absent  " .. case[2]:match "^%w+")
    end
  end)

  it("ends the use of the GPU where nothing stands in for it", function()
    for _, case in ipairs {
        { "libnvrtc.so.13", "libnvrtc.so.13 not found (install the CUDA toolkit's NVRTC (package "
          .. "cuda-nvrtc), version 12 or 13)", "nvrtc" },
        { "libcublasLt.so.13", "libcublasLt.so.13 not found (install cuBLAS (package libcublas), "
          .. "version 12 or 13)", "cublaslt" },
    } do
      machine(without(case[1]))
      has(run "--info", "[CUDA Warning] " .. case[3] .. ": " .. case[2] .. "; looked for: ")
      local text, status = run "--doctor"
      has(text, "WRONG   " .. case[3], case[2])
      assert.equal(1, status)
    end
    machine(without "libnvrtc.so.13")
    has(script(to_device), "false\t", ": cuda: libnvrtc.so.13 not found (install the CUDA toolkit's "
      .. "NVRTC (package cuda-nvrtc), version 12 or 13)\n")
  end)

  it("is NCCL where FLAME_NCCL names another file, which alone is looked for, or turns it off", function()
    machine(all)
    has(run("--info", nil, "FLAME_NCCL=libmine.so"), "[CUDA Warning] nccl: libmine.so not found "
      .. "(install NCCL (package libnccl2); several GPUs alone need it); looked for: libmine.so\n")
    has(run("--info", nil, "FLAME_NCCL=off"), "[CUDA Warning] nccl: FLAME_NCCL is off\n")
  end)

  it("is no driver: what to do depends on the machine", function()
    for _, case in ipairs {
        { {}, "no NVIDIA driver: install one" },
        { container, "no NVIDIA driver in this container: start it with the GPU, as docker run "
          .. "--gpus all does, with the NVIDIA Container Toolkit on the host" },
        { { ["run/.containerenv"] = "" }, "no NVIDIA driver in this container: start it" },
        { wsl, "no NVIDIA driver in WSL2: install the NVIDIA driver in Windows, none here, and look "
          .. "that /usr/lib/wsl/lib is there" },
        { { ["proc/driver/nvidia/version"] = "" }, "the driver's kernel module is there, its "
          .. "library is not: install the library (package libcuda1) of the same version" },
    } do
      machine(without "libcuda.so.1", case[1])
      local fact = "libcuda.so.1 not found (" .. case[2]
      has(run "--info", "cuda: none (" .. fact, "[CUDA Warning] driver: " .. fact)
      has(script(to_device), "false\t(command line):1: cuda: " .. fact)
      local text, status = run "--doctor"
      has(text, "absent  driver             " .. fact, "everything runs on the CPU",
        "Nothing is wrong")
      assert.equal(0, status, text)
    end
  end)
end)

describe("a library that is there and does not serve", function()
  it("is told with the loader's reason", function()
    machine(without "libcuda.so.1", { ["libcuda.so.1"] = "no library" })
    has(run "--info", "[CUDA Warning] driver: libcuda.so.1 can not be loaded: ", "file too short",
      " (install NVIDIA driver 525 or later)")
    machine(without "libcufft.so.12", { ["libcufft.so.12"] = ("x"):rep(1000) })
    has(run "--info", "[CUDA Warning] cufft: libcufft.so.12 can not be loaded: ",
      "invalid ELF header (install cuFFT (package libcufft); our own kernels serve); looked for: ")
  end)

  it("is too old where it lacks a function", function()
    machine(without "libcuda.so.1")
    sh("cp", quote(build .. "/libflame.so.0"), root .. "/libcuda.so.1")
    has(script(to_device), "false\t(command line):1: cuda: libcuda.so.1 has no cuInit: too old "
      .. "(install NVIDIA driver 525 or later)\n")
  end)

  it("is a driver older than CUDA 12", function()
    machine(all)
    local fact = "the driver is too old: it serves CUDA 11.8, and 12.0 is needed; install NVIDIA "
      .. "driver 525 or later"
    has(run("--info", "version=11080"), "[CUDA Warning] driver: " .. fact .. "\n",
      "cuda: none (" .. fact .. ")\n")
    has(script(to_device, "version=11080"), "(command line):1: cuda: " .. fact .. "\n")
  end)

  it("is an NVRTC newer than the driver; one of the driver's version is taken first", function()
    machine(all)
    local fact = "the driver is too old for NVRTC 13.0: it serves CUDA 12.4; install a driver of "
      .. "CUDA 13, or NVRTC 12 (libnvrtc.so.12) beside this one\n"
    has(run("--info", "version=12040"), "[CUDA Warning] nvrtc: " .. fact)
    has(script(to_device, "version=12040"), "cuda: cuda:0: " .. fact)
    sh("cp", quote(build .. "/spec/fake_cuda.so"), root .. "/libnvrtc.so.12")
    local text = run("--info", "version=12040 nvrtc=128")
    has(text, "[CUDA Info] nvrtc: 12.8, ROOT/libnvrtc.so.12\n")
    assert.falsy(text:find("too old", 1, true), text)
  end)
end)

describe("a card", function()
  it("that NVRTC does not compile for is told with the versions and a remedy", function()
    machine(all)
    for _, case in ipairs {
        { "arch=35", "sm_35, and NVRTC 13.0 compiles for sm_75 to sm_120; use the CPU, or a card of "
          .. "sm_50 or later" },
        { "arch=61", "sm_61, and NVRTC 13.0 compiles for sm_75 to sm_120; put NVRTC 12 "
          .. "(libnvrtc.so.12) in the place of this one" },
        { "arch=121", "sm_121, and NVRTC 13.0 compiles for sm_75 to sm_120; install the NVRTC of a "
          .. "newer CUDA toolkit" },
    } do
      local fact = "the card is not supported: it is " .. case[2] .. "\n"
      has(run("--info", case[1]), "[CUDA Warning] cuda:0: " .. fact)
      has(script(to_device, case[1]), "false\t(command line):1: cuda: cuda:0: " .. fact)
    end
  end)

  it("that has no kernel image is told what the image is for", function()
    machine(all)
    has(script(to_device, "image=86"), "cuda: no kernel image for this device "
      .. "(CUDA_ERROR_NO_BINARY_FOR_GPU): GPU sm_90, compiled for sm_86, the driver serves CUDA "
      .. "13.0; install the NVRTC of a newer CUDA toolkit\n")
    has(script(to_device, "fail=ModuleLoadData:1:222"), "cuda: no kernel image for this device "
      .. "(CUDA_ERROR_UNSUPPORTED_PTX_VERSION): GPU sm_90, compiled for sm_90, the driver serves CUDA "
      .. "13.0; install a driver of CUDA 13.0 or later\n")
  end)

  it("is not seen: what to do depends on the machine", function()
    local told = "the NVIDIA driver sees no device"
    for _, case in ipairs {
        { {}, "; look at nvidia-smi -L: a card in MIG mode needs an instance (nvidia-smi mig -cgi), "
          .. "others must be listed" },
        { wsl, " in WSL2; update the NVIDIA driver of Windows, and WSL itself by wsl --update" },
        { container, " in this container; start it with the GPU, as docker run --gpus all does" },
        { container, ", for CUDA_VISIBLE_DEVICES is '7'; unset it, or name a device of nvidia-smi -L",
          "CUDA_VISIBLE_DEVICES=7" },
    } do
      machine(all, case[1])
      has((run("--info", "devices=0", case[3])),
        "[CUDA Warning] driver: " .. told .. case[2] .. "\n")
      has(script(to_device, "devices=0", case[3]), ": cuda: " .. told .. case[2] .. "\n")
      has((run("--info", "fail=Init:1:100", case[3])),
        "[CUDA Warning] driver: cuInit: CUDA_ERROR_NO_DEVICE: " .. told .. case[2] .. "\n")
    end
  end)
end)

describe("a driver that refuses", function()
  it("is told by the cause that its result has", function()
    machine(all)
    for code, fact in pairs {
        [2] = "CUDA_ERROR_OUT_OF_MEMORY: no memory is left on the GPU; end other processes that "
          .. "nvidia-smi lists, or choose another card by CUDA_VISIBLE_DEVICES",
        [34] = "CUDA_ERROR_STUB_LIBRARY: the libcuda.so.1 that was found is the toolkit's stub, not "
          .. "the driver; take the folder lib64/stubs out of LD_LIBRARY_PATH",
        [46] = "CUDA_ERROR_DEVICE_UNAVAILABLE: another process has the GPU for itself (exclusive "
          .. "compute mode); end that process, or set the mode back by nvidia-smi -c DEFAULT",
        [102] = "CUDA_ERROR_DEVICE_NOT_LICENSED: the virtual GPU has no licence; give this machine a "
          .. "vGPU licence",
        [304] = "CUDA_ERROR_OPERATING_SYSTEM: the system refused what the driver asked for; look "
          .. "whether this user may open /dev/nvidia* (groups video and render)",
        [800] = "CUDA_ERROR_NOT_PERMITTED: this user may not use the GPU; look whether this user may "
          .. "open /dev/nvidia* (groups video and render)",
        [802] = "CUDA_ERROR_SYSTEM_NOT_READY: the NVLink fabric of this machine is not started; start "
          .. "the service nvidia-fabricmanager, in the driver's own version",
        [803] = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: libcuda.so.1 and the driver's kernel module are of "
          .. "different versions; restart the machine, as after each update of the driver",
        [804] = "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: libcuda.so.1 is of the package "
          .. "cuda-compat, which does not serve this card; take the compat folder out of "
          .. "LD_LIBRARY_PATH, and install a newer driver",
        [999] = "CUDA_ERROR_UNKNOWN: the driver gives no reason; often the module nvidia_uvm is not "
          .. "loaded, or was lost when the machine slept; run nvidia-modprobe -u, or restart the "
          .. "machine",
    } do
      local text, status = run("--info", ("fail=Init:1:%d"):format(code))
      assert.equal(0, status, text)
      has(text, "[CUDA Warning] driver: cuInit: " .. fact .. "\n")
      has(script(to_device, ("fail=PrimaryRetain:1:%d"):format(code)),
        ": cuda: cuDevicePrimaryCtxRetain: " .. fact .. "\n")
    end
  end)
end)

describe("the memory of a GPU", function()
  it("that is out is told with the op, the line and the lines that hold the most", function()
    machine(all)
    local text = script([[
      local held = flame.tensor({ 1, 2, 3 }, { device = "cuda" })
      flame.eval(held)
      local x = flame.ones(1 << 29, { device = "cuda" })
      print(pcall(flame.eval, x))]])
    has(text, "false\t(command line):3: fill: out of memory on cuda:0: asked for 2147483648 bytes for "
      .. "its value, 1071644672 free, 2097152 reserved, 12 live in tensors; most is held by "
      .. "(command line):1 (0.0 MiB)")
  end)

  it("is counted with intermediate values, scratch and what is cached", function()
    machine(all)
    assert.equal("true\ttrue\ttrue\ttrue\ttrue\n", script([[
      local x = flame.tensor({ 1, 2, 3 }, { device = "cuda" })
      local a = flame.zeros(1000, 1000, { device = "cuda" })
      flame.eval(x, a)
      flame.memory "reset_peak"
      local y = (a:matmul(a) + 1):matmul(a)
      flame.eval(y)
      local m = flame.memory "cuda"
      print(m.free + m.reserved == 1 << 30, m.arena >= 4000000,
        m.peak >= m.allocated + m.arena and m.peak <= m.reserved_peak, m.workspace > 0,
        flame.empty_cache() == nil and flame.memory "cuda".arena == 0)]]))
  end)
end)

describe("a device that is lost", function()
  local use = [[
    local kept = flame.arange(3.0)
    local x = flame.ones(3, { device = "cuda" })
    print(pcall(function() return (x + 1):sum():item() end))
    print(pcall(function() return x * 2 end))
    print(pcall(function() return x:cpu():sum():item() end))
    local path = os.tmpname()
    flame.save(path .. ".safetensors", { kept = kept * 2 })
    print(flame.load(path .. ".safetensors").kept)
    os.remove(path)
    os.remove(path .. ".safetensors")]]

  local kernels = [[
local shift = flame.kernel "__global__ void shift(const float *x, float *y, int n)\
  { int i = threadIdx.x; if (i < n) y[i] = x[i]; }"
local x = flame.ones(4, 5, { device = "cuda" })
local z = shift(x) + 1
for i = 1, 12 do
  z = (z * 2):exp()
  flame.eval(z)
end
print(pcall(function() return z:sum():item() end))]]

  it("names at most eight launches, those of user kernels first, that it may be of", function()
    machine(all)
    local text = script(kernels, "fail=EventQuery:1:700")
    has(text, "false\t(command line):9: cuda: device cuda:0 is lost: CUDA_ERROR_ILLEGAL_ADDRESS",
      "reported by cuEventQuery; it may be of shift at (command line):4 for (4, 5) f32, sum at ")
    local _, n = text:gsub(" for %(", "")
    assert.equal(8, n, text)
    assert.truthy(text:find "; run with DEBUG_CUDA=1 to find it\n$", text)
  end)

  it("names none that had ended well before", function()
    machine(all)
    local text = script(kernels:gsub("flame%.eval%(z%)", "flame.eval(z) flame.synchronize()"),
      "fail=EventQuery:13:700")
    has(text, "it may be of sum at (command line):9 for (1, 1) f32; run with")
  end)

  it("names the launch itself under the debug switch, a user kernel's too", function()
    machine(all)
    has(script(kernels, "fail=LaunchKernel:4:700", "DEBUG_CUDA=1"),
      "(command line):4: shift: its launch, for a result of shape (4, 5), failed: device cuda:0 is lost")
  end)

  it("repeats its first cause, and the CPU's tensors are read and saved", function()
    machine(all)
    local cause = "device cuda:0 is lost: CUDA_ERROR_ILLEGAL_ADDRESS (made to fail), reported by "
      .. "cuLaunchKernel; it may be of add+sum at (command line):2 for (3) f32; run with DEBUG_CUDA=1 to "
      .. "find it\n"
    local text = script(use, "fail=LaunchKernel:1:700")
    local read = cause:sub(1, -2) .. " (read at (command line):%d)\n"
    has(text, "false\t(command line):3: cuda: " .. cause,
      "false\t(command line):2: cuda: " .. read:format(4),
      "false\t(command line):2: cuda: " .. read:format(5), "\n2 4 6  shape (3), f32, cpu\n")
  end)

  it("is told with the remedy of its fault", function()
    machine(all)
    for code, fact in pairs {
        [214] = "CUDA_ERROR_ECC_UNCORRECTABLE (made to fail), reported by cuLaunchKernel; its memory "
          .. "had an error that ECC could not correct: end this program and reset the GPU by "
          .. "nvidia-smi -r; replace it if the error returns",
        [220] = "CUDA_ERROR_NVLINK_UNCORRECTABLE (made to fail), reported by cuLaunchKernel; a link "
          .. "between GPUs failed: end this program and look at nvidia-smi nvlink -e",
        [226] = "CUDA_ERROR_CONTAINED (made to fail), reported by cuLaunchKernel; its memory had an "
          .. "error that ECC could not correct: end this program",
        [702] = "CUDA_ERROR_LAUNCH_TIMEOUT (made to fail), reported by cuLaunchKernel; a kernel ran "
          .. "longer than a GPU with a display allows: use smaller launches, or a card without a "
          .. "display",
    } do
      local text = script(use, ("fail=LaunchKernel:1:%d"):format(code))
      has(text, ": cuda: device cuda:0 is lost: " .. fact)
      has(text, "\n2 4 6  shape (3), f32, cpu\n")
    end
  end)

  it("is told by the launch that lost it, where each is waited for", function()
    machine(all)
    local text = script([[
      local x = flame.tensor({ 1, 2 }, { device = "cuda" })
      flame.eval(x)
      local y = x * 2 + 1
      print(pcall(function() return y:sum():item() end))
      print(pcall(function() return tostring(x + 1) end))]], "fail=StreamSynchronize:3:719",
      "DEBUG_CUDA=1")
    local launch = "mul+add+sum: its launch, for a result of shape (2), failed: device cuda:0 is "
      .. "lost: CUDA_ERROR_LAUNCH_FAILED (made to fail), reported by the kernel just launched (read "
      .. "at (command line):%d)\n"
    has(text, "false\t(command line):3: " .. launch:format(4),
      "false\t(command line):3: " .. launch:format(5))
  end)

  it("leaves the others alone, each with its own cause", function()
    machine(all)
    local text = script([[
      local x = flame.tensor({ 1, 2 }, { device = "cuda:0" })
      local y = flame.tensor({ 3, 4 }, { device = "cuda:1" })
      flame.eval(x, y)
      print(pcall(function() return (x + 1):sum():item() end))
      print(pcall(function() return (y + 1):sum():item() end))
      print(pcall(function() return tostring(x + 1) end))
      print(pcall(function() return tostring(y + 1) end))]], "devices=2 fail=LaunchKernel:1:700")
    for line, device in pairs { [4] = 0, [5] = 1, [6] = 0, [7] = 1 } do
      has(text, ("false\t(command line):%d: cuda: device cuda:%d is lost: CUDA_ERROR_ILLEGAL_ADDRESS")
        :format(line, device))
    end
  end)
end)

-- docs/troubleshooting.md shows these messages in blocks that are marked with the name of a
-- machine: the lines of a block must occur, in this order, in the output on that machine.
describe("docs/troubleshooting.md", function()
  local function info(libraries, files, ...)
    machine(libraries, files)
    return (run("--info", ...))
  end
  local function program(text, ...)
    machine(all, { ["script.lua"] = text })
    return (run(root .. "/script.lua", ...):gsub("ROOT/script", "script"))
  end
  local to_gpu = "print(select(2, pcall(function() return flame.ones(2):cuda():sum():item() end)))"
  local loses = [[
local kept, x = flame.arange(3), flame.tensor({ 1, 2 }, { device = "cuda" })
flame.eval(x)
print(select(2, pcall(function() return (x + 1):sum():item() end)))
print(select(2, pcall(function() return tostring(x * 2) end)))
flame.save(os.getenv "FLAME_TEST_MACHINE" .. "/kept.safetensors", { kept = kept * 2 })
print("the values of the CPU are saved: "
  .. tostring(flame.load(os.getenv "FLAME_TEST_MACHINE" .. "/kept.safetensors").kept))]]
  local machines = {
    ["no-driver"] = function() return info(without "libcuda.so.1") end,
    ["no-driver-container"] = function() return info(without "libcuda.so.1", container) end,
    ["no-driver-wsl"] = function() return info(without "libcuda.so.1", wsl) end,
    ["no-device"] = function() return info(all, nil, "devices=0") end,
    ["no-device-visible"] = function()
      return info(all, nil, "devices=0", "CUDA_VISIBLE_DEVICES=7")
    end,
    refused = function() return info(all, nil, "fail=Init:1:803") end,
    ["old-driver"] = function() return info(all, nil, "version=11080") end,
    ["old-for-nvrtc"] = function() return info(all, nil, "version=12040") end,
    card = function() return info(all, nil, "arch=61") end,
    nan = function()
      machine(without "libcuda.so.1", { ["train.lua"] = [[
local w = flame.ones(4, 4, { requires_grad = true })
local opt = require("flame.optim").SGD({ w }, { lr = 0.1 })
local x = flame.zeros(3, 4)

local function step()
  opt:zero_grad()
  local h = x:matmul(w)
  local loss = (h ^ 2):sqrt():sum()
  loss:backward()
  opt:step()
  return loss
end
print(select(2, pcall(function() return step():item() end)))]] })
      return (run(root .. "/train.lua", nil, "FLAME_CHECK=nan"):gsub("ROOT/train", "train"))
    end,
    image = function() return program(to_gpu, "image=86") end,
    ["no-nvrtc"] = function() return info(without "libnvrtc.so.13") end,
    ["no-cudnn"] = function() return info(without "libcudnn.so.9") end,
    shared = function() return info(all, nil, "mig=1 ecc=3 processes=2 hidden=1000") end,
    ["self-test"] = function() return info(all) end,
    lost = function() return program(loses, "fail=LaunchKernel:1:700") end,
    ["lost-debug"] = function()             -- two launches of the self-test precede
      return program(loses, "fail=LaunchKernel:3:700", "DEBUG_CUDA=1")
    end,
    ["lost-ecc"] = function() return program(loses, "fail=LaunchKernel:1:214") end,
  }
  local markdown = dofile "tools/book/markdown.lua"
  local blocks = {}
  do
    local f <close> = assert(io.open "docs/troubleshooting.md")
    for _, block in ipairs(markdown.parse(f:read "a")) do
      if block.kind == "code" and block.word == "text" then blocks[block.mark] = block.lines end
    end
  end

  it("shows each machine", function()
    for name in pairs(machines) do assert.truthy(blocks[name], name) end
    for name in pairs(blocks) do assert.truthy(machines[name], name) end
  end)

  for name, said in pairs(machines) do
    it("says what is seen where there is " .. name, function()
      local text, at = "\n" .. said(), 1
      for _, line in ipairs(blocks[name] or {}) do
        local pattern = line:gsub("%p", "%%%0"):gsub("\xE2\x80\xA6", "\0"):gsub("%%?\0", ".-")
        local first, last = text:find("\n" .. pattern, at)
        assert.truthy(first, line .. "\nis not in\n" .. text)
        at = last
      end
    end)
  end
end)
