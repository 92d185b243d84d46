-- Files that are made to cost time. A file 8 times as large may take about 8 times as long to read;
-- a reader that goes back over its text again and again would take 64 times as long. Wrong files
-- must give an error of the reader, never one that Lua raises by itself.

local flame = require "flame"
local data = require "flame.data"

local files = dofile "spec/support/files.lua" ()
local write = files.write
teardown(files.remove)

local function safetensors(header) return string.pack("<I8", #header) .. header end
local function metadata(text) return safetensors('{"__metadata__":{"flame":"' .. text .. '"}}') end

--- The CPU time of f on a file with this text, in seconds: the minimum of three runs.
local function cost(f, name, text)
  local file, least = write(name, text), math.huge
  for _ = 1, 3 do
    local begin = os.clock()
    pcall(f, file)
    least = math.min(least, os.clock() - begin)
  end
  return least
end

local function tabs(file) return data.csv(file, { sep = "\t" }) end

local long = {       -- title, file's name, reader, function: the text of size n, n
  { "blanks within a field", "a.csv", data.csv,
    function(n) return "1,x" .. (" "):rep(n) .. "y\n" end, 50000 },
  { "blanks before a field", "a.csv", data.csv,
    function(n) return "1," .. (" "):rep(n) .. "y\n" end, 200000 },
  { "separators that are blanks", "a.csv", tabs,
    function(n) return ("\t"):rep(n) .. "y\n" end, 20000 },
  { "carriage returns", "a.csv", data.csv, function(n) return ("\r"):rep(n) .. "1\n" end, 200000 },
  { "quotation marks", "a.csv", data.csv,
    function(n) return '"' .. ('""'):rep(n) .. "\n" end, 100000 },
  { "quoted separators", "a.csv", data.csv,
    function(n) return ('"' .. (","):rep(20) .. '",'):rep(n) .. "\n" end, 5000 },
  { "short lines", "a.csv", data.csv, function(n) return ("1\n"):rep(n) end, 20000 },
  { "digits", "a.csv", data.csv, function(n) return ("1"):rep(n) .. "\n" end, 200000 },
  { "weight_maps that do not end", "m.index.json", flame.load,
    function(n) return ('{"weight_map":'):rep(n) end, 20000 },
  { "blanks in a list of files", "m.index.json", flame.load,
    function(n) return '{"weight_map"' .. (" "):rep(n) .. "x" end, 200000 },
  { "strings in a list of files", "m.index.json", flame.load,
    function(n) return '{"weight_map":{' .. ('"x" '):rep(n) end, 50000 },
  { "brackets in a header", "a.safetensors", flame.load,
    function(n) return safetensors("{" .. ('"a":['):rep(n)) end, 100000 },
  { "blanks in a header", "a.safetensors", flame.load,
    function(n) return safetensors("{" .. (" "):rep(n) .. "x") end, 200000 },
  { "escapes in a header", "a.safetensors", flame.load,
    function(n) return safetensors('{"' .. ("\\u0041"):rep(n)) end, 100000 },
  { "keys of metadata", "a.safetensors", flame.load, function(n)
    local keys = {}
    for i = 1, n do keys[i] = ('"%08d":"x"'):format(i) end
    return safetensors('{"__metadata__":{' .. table.concat(keys, ",") .. "}}")
  end, 10000 },
  { "empty tensors", "a.safetensors", flame.load, function(n)
    local keys = {}
    for i = 1, n do keys[i] = ('"%08d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'):format(i) end
    return safetensors("{" .. table.concat(keys, ",") .. "}")
  end, 3000 },
  { "a list in flame's metadata", "a.safetensors", flame.load,
    function(n) return metadata("1:{[" .. ("T"):rep(n) .. "]}") end, 50000 },
  { "a text in flame's metadata", "a.safetensors", flame.load,
    function(n) return metadata("1:{sa;s" .. ("%41"):rep(n) .. ";}") end, 100000 },
  { "digits in flame's metadata", "a.safetensors", flame.load,
    function(n) return metadata("1:{sa;i" .. ("1"):rep(n) .. ";}") end, 200000 },
  { "brackets of another program", "a.safetensors", flame.load,
    function(n) return metadata("1:" .. ("{"):rep(n) .. "!") end, 200000 },
  { "a text", "a.txt", data.text, function(n) return ("ab"):rep(n) end, 500000 },
  { "tokens", "a.bin", data.tokens, function(n) return ("ab"):rep(n) end, 500000 },
}

describe("time in proportion to the file is what it takes to read", function()
  for _, case in ipairs(long) do
    local what, name, reader, text, n = table.unpack(case)
    it(what, function()
      local short, whole = cost(reader, name, text(n)), cost(reader, name, text(8 * n))
      assert.is_true(whole < 30 * short + 0.05,
        ("%.3f s for %d, %.3f s for 8 times as much"):format(short, n, whole))
    end)
  end
end)
