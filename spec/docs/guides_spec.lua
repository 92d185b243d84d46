--- Situations that the troubleshooting guides of similar libraries treat: each has a section in
--- docs/troubleshooting.md or docs/profiling.md, with an example that docs_spec.lua runs.
local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read "a"
end

--- Situation -> { section, a text in the section that a user sees or types }
local situations = {
  ["shapes differ"] = { "Shapes do not fit", "do not broadcast" },
  ["no gradient: not tracked"] = { "A gradient is missing", "is not tracked" },
  ["no gradient: not passed on"] = { "A gradient is missing", "is not on a path" },
  ["no gradient: another call's map"] = { "A gradient is missing", "not asked for in this call" },
  ["shapes in backward"] = { "A gradient does not fit", "of backward has shape" },
  ["backward gives too few"] = { "A gradient does not fit", "gave 0 values" },
  ["gradients vanish or explode"] = { "Gradients vanish or explode", "flame.gradients_table" },
  ["where in backward"] = { "Gradients vanish or explode", "flame.backward_trace" },
  ["a backward that is wrong"] = { "A gradient is wrong", "FLAME_CHECK=grad" },
  ["one op replaced at a time"] = { "Two computations do not agree", "flame.use" },
  ["compared with a reference"] = { "Two computations do not agree", "flame.bisect" },
  ["not contiguous, views, writes"] = { "A write is refused", "write to a view" },
  ["ids out of range"] = { "An index is out of range", "is out of range for axis" },
  ["out of memory"] = { "Out of memory", "out of memory on cpu" },
  ["accumulate gradients"] = { "Out of memory", "/ 4):backward()" },
  ["empty the cache"] = { "Out of memory", "flame.empty_cache()" },
  ["memory in use"] = { "Out of memory", "flame.memory()" },
  ["NaN in gradients"] = { "NaN or infinite values", "FLAME_CHECK=nan" },
  ["the first call is slow"] = { "The first call is slow", "FLAME_CACHE_DIR" },
  ["no driver, WSL2, containers"] = { "No GPU is found", "no NVIDIA driver in WSL2" },
  ["versions"] = { "No GPU is found", "the driver is too old" },
  ["other processes"] = { "A GPU is full, shared or faulty", "processes on it" },
  ["illegal address"] = { "A GPU is lost", "CUDA_ERROR_ILLEGAL_ADDRESS" },
  ["synchronous launches"] = { "A GPU is lost", "DEBUG_CUDA=1" },
  ["fork after CUDA"] = { "A GPU is lost", "was forked after CUDA was started" },
  ["CUDA C where PTX is expected"] = { "A kernel is not found, or not taken", "this is CUDA C" },
  ["kernel name not found"] = { "A kernel is not found, or not taken", "there is no entry" },
  ["prints in a kernel"] = { "A kernel is not found, or not taken", "`printf`" },
  ["a name is unknown"] = { "A name is unknown", "did you mean" },
  ["time by op"] = { "Where the time goes", "flame.profile", "profiling" },
  ["nsys, ncu, compute-sanitizer"] = { "NVIDIA's tools", "compute-sanitizer --tool memcheck",
    "profiling" },
}

describe("a situation of the guides", function()
  local names = {}
  for name in pairs(situations) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it("has its section: " .. name, function()
      local heading, text, page = table.unpack(situations[name])
      local all = read("docs/" .. (page or "troubleshooting") .. ".md") .. "\n## "
      local _, from = all:find("\n## " .. heading .. "\n", 1, true)
      assert.truthy(from, "no section '" .. heading .. "'")
      local section = all:sub(from, (all:find("\n## ", from, true)))
      assert.truthy(section:find(text, 1, true), "'" .. heading .. "' has not: " .. text)
      assert.truthy(section:find("```", 1, true) or section:find "`[^`]+`", "no example")
    end)
  end
end)
