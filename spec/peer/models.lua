--- Runs a model from a folder in Hugging Face's format for spec/peer/models.py:
-- flame-lua models.lua FOLDER reads inputs from FOLDER/input.json, writes FOLDER/output.json.
local flame = require "flame"
local json = require "flame.models.json"
local cases = require "spec.support.model_cases"

local folder = arg[1]
local function read(name)
  local f <close> = assert(io.open(folder .. "/" .. name, "rb"))
  return assert(json.read(f:read "a"))
end
local model = flame.models.from_pretrained(folder)
local f <close> = assert(io.open(folder .. "/output.json", "wb"))
f:write(json.write(cases.run(model, read "input.json")))
