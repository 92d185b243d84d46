-- Runs the examples by the commands that their heads give, with options that make them short.

local flame = require "flame"
local interpreter = dofile("spec/support/interpreter.lua")

local function run(arguments)
  local pipe = assert(io.popen(("'%s' %s 2>&1"):format(interpreter, arguments)))
  local output = pipe:read("a")
  local _, _, status = pipe:close()
  return output, status
end

describe("examples", function()
  it("fit.lua finds the curve", function()
    local output, status = run("examples/fit.lua")
    assert.equal(0, status, output)
    local a, b = output:match("y = ([%d.]+) sin%(([%d.]+) x%)")
    assert.close(1.5, tonumber(a), 0.05)
    assert.close(0.8, tonumber(b), 0.05)
  end)

  it("digits.lua draws its own digits and tells most of them apart", function()
    local output, status = run("examples/digits.lua --device cpu --epochs 4")
    assert.equal(0, status, output)
    local accuracy = tonumber(output:match("test accuracy ([%d.]+) %%"))
    assert.truthy(accuracy and accuracy > 75, output)
  end)

  it("digits.lua learns with convolutions too", function()
    local output, status = run("examples/digits.lua --device cpu --model cnn --epochs 3")
    assert.equal(0, status, output)
    local accuracy = tonumber(output:match("test accuracy ([%d.]+) %%"))
    assert.truthy(accuracy and accuracy > 60, output)
  end)

  it("clifford.lua learns how bodies move, and knows it after a rotation", function()
    local output, status = run("examples/clifford.lua --device cpu --steps 250 --systems 1000")
    assert.equal(0, status, output)
    local own, turned, straight =
      output:match(
        "test error ([%d.]+), of the rotated test set ([%d.]+), of straight lines ([%d.]+)")
    assert.truthy(straight and tonumber(own) < 0.9 * tonumber(straight), output)
    assert.close(tonumber(own), tonumber(turned), 1e-3)
  end)

  it("gpt2.lua learns, writes with caches, and goes on as if it had not stopped", function()
    local name = os.tmpname()
    local usual = "examples/gpt2.lua --device cpu --steps 24 --every 12 --context 32 --sample 12"
    local whole, status = run(usual)
    assert.equal(0, status, whole)
    local first, last = whole:match "validation ([%d.]+).-validation ([%d.]+)"
    assert.is_true(tonumber(last) < tonumber(first), whole)
    assert.truthy(whole:find "%-%-%- sample %-%-%-\n.")
    run(("%s --stop 12 --save %s"):format(usual, name))
    local rest = run(("%s --resume %s"):format(usual, name))
    os.remove(name)
    local function last_line(o) return o:match "step 24/24  (loss [%d.]+  validation [%d.]+)" end
    assert.is_string(last_line(whole), whole)
    assert.equal(last_line(whole), last_line(rest), rest)
  end)

  it("vae.lua learns to draw and writes a picture", function()
    local name = os.tmpname()
    local output, status = run(("examples/vae.lua --device cpu --epochs 1 --images 500 --out %s.png"):format(name))
    local f = io.open(name .. ".png", "rb")
    local head = f and f:read(4)
    if f then f:close() end
    os.remove(name)
    os.remove(name .. ".png")
    assert.equal(0, status, output)
    assert.equal("\x89PNG", head)
    local loss = tonumber(output:match("loss ([%d.]+)"))
    assert.truthy(loss and loss < 545, output)                  -- 784 log 2 when nothing is learned
  end)

  it("diffusion.lua learns to take noise out, both ways, and writes a picture", function()
    for _, way in ipairs { "", "--flow" } do
      local name = os.tmpname()
      local output, status =
        run(("examples/diffusion.lua --device cpu --epochs 2 --images 300 --batch 50 --width 8 --steps 4 --out %s.png %s")
          :format(name, way))
      local f = io.open(name .. ".png", "rb")
      local head = f and f:read(4)
      if f then f:close() end
      os.remove(name)
      os.remove(name .. ".png")
      assert.equal(0, status, output)
      assert.equal("\x89PNG", head)
      local first, last = output:match("loss ([%d.]+).-loss ([%d.]+)")
      assert.is_true(tonumber(last) < 0.9 * tonumber(first), output)
    end
  end)

  it("lora.lua learns a text with adapters, and writes them", function()
    local name = os.tmpname()
    local output, status = run(
      ("examples/lora.lua --device cpu --base 40 --steps 40 --sample 20 --out %s.safetensors")
        :format(name))
    local saved = flame.load(name .. ".safetensors")
    os.remove(name)
    os.remove(name .. ".safetensors")
    assert.equal(0, status, output)
    local before, after = output:match "held%-back loss ([%d.]+) before, ([%d.]+) after"
    assert.is_true(tonumber(after) < tonumber(before) - 0.2, output)
    assert.truthy(output:find "%-%-%- sample %-%-%-\n.")
    local count = 0
    for key, x in pairs(saved) do
      assert.truthy(key:find "%.lora%.[ABs]", key)
      if key:find "%.[AB]$" then count = count + x:numel() end
    end
    assert.equal(tonumber(output:match "(%d+) of them in adapters"), count)
  end)

  it("lora.lua and chat.lua take a folder, with the form of conversation that it names", function()
    local folder = os.tmpname()
    os.remove(folder)
    flame.seed(1)
    flame.models.save_pretrained(flame.models.from_config { model_type = "gpt2", vocab_size = 256,
      n_embd = 16, n_layer = 1, n_head = 2, n_positions = 400 }, folder)
    local output, status = run(
      ("examples/lora.lua --device cpu --model %s --steps 3 --sample 5"):format(folder))
    assert.equal(0, status, output)
    assert.truthy(output:find("held-back loss", 1, true), output)
    local function talk(options)
      return run(("examples/chat.lua %s --device cpu --tokens 8 %s <%s/input"):format(folder,
        options, folder))
    end
    local f = assert(io.open(folder .. "/input", "w"))
    f:write("hello\nand you?\n")
    f:close()
    local plain, failed = talk "--temperature 0 --show"
    assert.equal(0, failed, plain)
    assert.truthy(plain:find("gpt2: ", 1, true), plain)
    assert.equal(2, select(2, plain:gsub("pieces/s", "")))
    assert.truthy(plain:find("User: hello\nAssistant:", 1, true), plain)
    for template, start in pairs {
      ["{{'<|im_start|>' + message}}"] =
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
      ["{{ '[INST] ' }}"] = "<s>[INST] hello [/INST]" } do
      f = assert(io.open(folder .. "/tokenizer_config.json", "w"))
      f:write(('{"chat_template": "%s"}'):format(template))
      f:close()
      local shown = talk "--temperature 0 --show"
      assert.truthy(shown:find(start, 1, true), shown)
    end
    local drawn, wrong = talk "--seed 3 --system Answer."
    assert.equal(0, wrong, drawn)
    os.execute("rm -r " .. folder)
  end)

  it("lora.lua and chat.lua read and write with the folder's tokenizer", function()
    local folder = os.tmpname()
    os.remove(folder)
    local tokenizer = flame.tokenizers.train_bpe({ "hello and you and hello" }, 280,
      { special_tokens = { "<|im_start|>", "<|im_end|>" } })
    flame.seed(1)
    flame.models.save_pretrained(flame.models.from_config { model_type = "gpt2", n_layer = 1,
      vocab_size = tokenizer.vocab_size, n_embd = 16, n_head = 2, n_positions = 400 }, folder)
    tokenizer:save(folder .. "/tokenizer.json")
    for name, text in pairs { input = "hello\n",
      ["tokenizer_config.json"] = [[{"chat_template": "{{'<|im_start|>' + message}}"}]],
      text = ("hello and you \u{4F60}\n"):rep(200) } do
      local f <close> = assert(io.open(folder .. "/" .. name, "w"))
      f:write(text)
    end
    local output, status = run(
      ("examples/chat.lua %s --device cpu --tokens 9 --temperature 0 --show <%s/input"):format(
        folder, folder))
    assert.equal(0, status, output)
    local said = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    local at, last = output:find(said, 1, true)
    assert.truthy(at, output)
    local model = flame.models.from_pretrained(folder)
    local ids = flame.generate(model, tokenizer:encode(said), 9, { temperature = 0,
      repetition_penalty = 1.1, stop = { tokenizer:id "<|im_end|>" } })
    local answer = tokenizer:decode(ids)
    assert.is_true(#answer > 0)
    assert.equal("\n" .. answer .. "\n[", output:sub(last + 1, last + #answer + 3))
    output, status = run(
      ("examples/lora.lua --device cpu --model %s --text %s/text --context 16 --steps 3 --sample 5")
        :format(folder, folder))
    assert.equal(0, status, output)
    assert.truthy(output:find("held-back loss", 1, true), output)
    os.execute("rm -r " .. folder)
  end)

  it("chargpt.lua learns from the texts of the machine", function()
    local output, status = run("examples/chargpt.lua --device cpu --steps 40 --every 20 --batch 8 --sample 30")
    assert.equal(0, status, output)
    local losses = {}
    for loss in output:gmatch("validation ([%d.]+)") do losses[#losses + 1] = tonumber(loss) end
    assert.equal(2, #losses, output)
    assert.truthy(losses[2] < losses[1] and losses[1] < 4.5, output)
    assert.truthy(output:find("tokens/s", 1, true))
    assert.truthy(output:find("--- sample ---\n", 1, true))
  end)

  it("chargpt.lua takes a file of one's own", function()
    local name = os.tmpname()
    local f = assert(io.open(name, "w"))
    f:write(("to be or not to be, "):rep(100))
    f:close()
    local output, status = run(("examples/chargpt.lua --device cpu --data %s --steps 4 --batch 2 --sample 5"):format(name))
    os.remove(name)
    assert.equal(0, status, output)
    assert.truthy(output:find("2000 characters, 8 different", 1, true), output)
  end)

  for name, arguments in pairs {
    saxpy = "--elements 10000 --steps 3", activation = "--steps 100 --elements 500",
    heat = "--steps 40 --size 24 --time 10", springs = "--steps 25 --balls 8",
    raymarch = "--steps 40 --size 16", grid_sample = "--steps 60 --size 24",
  } do
    it(("kernels/%s.lua finds what its own check asks for"):format(name), function()
      local output, status =
        run(("examples/kernels/%s.lua --device cpu %s"):format(name, arguments))
      assert.equal(0, status, output)
    end)
  end

  it("kernels/heat.lua and raymarch.lua write pictures", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    for _, call in ipairs {
      { "heat", "--steps 40 --size 16 --time 5 --out " .. folder .. "/heat.png", { "heat" } },
      { "raymarch", "--steps 40 --size 16 --out " .. folder, { "target", "found", "steps" } } } do
      local output, status =
        run(("examples/kernels/%s.lua --device cpu %s"):format(call[1], call[2]))
      assert.equal(0, status, output)
      for _, name in ipairs(call[3]) do
        local f = assert(io.open(("%s/%s.png"):format(folder, name), "rb"))
        assert.equal("\137PNG\r\n\26\n", f:read(8))
        f:close()
      end
    end
    os.execute("rm -r " .. folder)
  end)

  it("list their options and refuse unknown ones", function()
    local output, status = run("examples/chargpt.lua --help")
    assert.equal(0, status)
    assert.truthy(output:find("--resume", 1, true))
    output, status = run("examples/chargpt.lua --stepz 3")
    assert.equal(1, status)
    assert.truthy(output:find("no option --stepz; the nearest is --steps", 1, true), output)
    output, status = run("examples/digits.lua --epochs two")
    assert.equal(1, status)
    assert.truthy(output:find("--epochs needs a number", 1, true), output)
  end)
end)
