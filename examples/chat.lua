-- A conversation on the terminal with a language model from a folder in Hugging Face's format.
--   flame-lua examples/chat.lua FOLDER [--temperature T] [--tokens N] …
-- FOLDER holds config.json, weights and tokenizer.json; without a tokenizer bytes are the tokens.
-- It reads a line, writes the answer while it is generated, and so on until the input ends. --help
-- lists all options.
local flame = require "flame"
local data, models = require "flame.data", require "flame.models"
local json = require "flame.models.json"

local folder = arg[1] and not arg[1]:find "^%-" and table.remove(arg, 1)
local options = data.options(arg, {
  { "device", "auto", "auto, cpu or cuda" },
  { "dtype", "auto", "f32, bf16 or f16; auto: bf16 on a GPU, else f32" },
  { "temperature", 0.7, "0 takes the likeliest token" },
  { "top_p", 0.9, "of the likeliest tokens, those that have this share together" },
  { "penalty", 1.1, "on tokens that came before" },
  { "tokens", 256, "most tokens of an answer" },
  { "system", "", "what the model is told first" },
  { "show", false, "write what the model gets, with the marks of turns" },
  { "seed", 1, "of the random numbers" },
})
if not folder then error("usage: flame-lua examples/chat.lua FOLDER (--help lists options)", 0) end
local device = options.device == "auto" and flame.best_device() or options.device
local dtype = options.dtype ~= "auto" and options.dtype or device == "cpu" and "f32" or "bf16"
flame.seed(options.seed)

local function read(name)
  local f <close> = io.open(folder .. "/" .. name, "rb")
  return f and f:read "a"
end

-- ---- tokens -------------------------------------------------------------------------------------

--- What is used if the folder has no tokenizer: each byte is a token.
local bytes = {}
function bytes:encode(text) return { text:byte(1, -1) } end
function bytes:stream()
  return { put = function(_, id) return id < 256 and string.char(id) or "" end,
    finish = function() return "" end }
end
function bytes:id() end                                  -- nil: there are no special tokens
local tokenizer = bytes
if read "tokenizer.json" then
  tokenizer = require "flame.tokenizers".load(folder .. "/tokenizer.json")
end

-- ---- the form of a conversation -----------------------------------------------------------------
-- How turns are written is a program in the folder, in the language Jinja. It is not run: a mark in
-- it shows which of the usual forms it has. begin: before the first turn; turn: from role and text
-- (or user, assistant, system: from the text); answer: before an answer; stop: the end of a turn.
local FORMS = {
  { mark = "<|im_start|>", turn = "<|im_start|>%s\n%s<|im_end|>\n",
    answer = "<|im_start|>assistant\n", stop = "<|im_end|>" },
  { mark = "<|start_header_id|>", begin = "<|begin_of_text|>",
    turn = "<|start_header_id|>%s<|end_header_id|>\n\n%s<|eot_id|>",
    answer = "<|start_header_id|>assistant<|end_header_id|>\n\n", stop = "<|eot_id|>" },
  { mark = "[INST]", begin = "<s>", user = "[INST] %s [/INST]", assistant = "%s</s>",
    system = "[INST] %s [/INST]</s>", answer = "", stop = "</s>" },
  { mark = "<|user|>", turn = "<|%s|>\n%s</s>\n", answer = "<|assistant|>\n", stop = "</s>" },
}
local PLAIN = { user = "User: %s\n", assistant = "Assistant: %s\n", system = "%s\n",
  answer = "Assistant:", stop = "\nUser:" }

local function form_of()
  local text = read "tokenizer_config.json"
  local template = text and (json.read(text) or {}).chat_template
  if type(template) == "table" then                      -- several: take the first
    template = template[1] and template[1].template
  end
  for _, form in ipairs(FORMS) do
    if type(template) == "string" and template:find(form.mark, 1, true) then return form end
  end
  return PLAIN
end
local form = form_of()

local function turn(role, text)
  return form.turn and form.turn:format(role, text) or form[role]:format(text)
end
-- ---- the conversation ---------------------------------------------------------------------------

local model = models.from_pretrained(folder, { device = device, dtype = dtype })
print(("%s: %d parameters in %s on %s"):format(model.config.model_type, model:count(), dtype,
  device))
local stop = { tokenizer:id(form.stop) or form.stop }
local eos = model.config.eos_token_id
for _, id in ipairs(type(eos) == "table" and eos or { eos }) do
  if math.type(id) then stop[#stop + 1] = id end
end
local said = (form.begin or "") .. (options.system ~= "" and turn("system", options.system) or "")
while true do
  io.write "> "
  io.flush()
  local line = io.read "l"
  if not line then break end
  said = said .. turn("user", line) .. form.answer
  if options.show then print(said) end
  local clock, answer = flame.timer(), {}
  -- the forms contain the special tokens; a plain conversation gets those of the tokenizer
  local ids = tokenizer:encode(said, { special = form == PLAIN })
  flame.generate(model, ids, options.tokens, { tokenizer = tokenizer,
    temperature = options.temperature, top_p = options.temperature > 0 and options.top_p or nil,
    repetition_penalty = options.penalty, stop = stop, stream = function(piece)
      answer[#answer + 1] = piece
      io.write(piece)
      io.flush()
    end })
  io.write(("\n[%.1f pieces/s]\n"):format(#answer / clock()))
  said = said:sub(1, #said - #form.answer) .. turn("assistant",
    (table.concat(answer):gsub("^%s+", "")))
end
print()
