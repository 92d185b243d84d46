--- The site made of docs/ (tools/site): how Markdown is converted and code coloured; every page
--- exists, links to the pages before and after it and is in the search; broken links are reported.
--- tools/site-check looks at the pages in a browser.
local markdown = dofile("tools/book/markdown.lua")
local highlight = dofile("tools/book/highlight.lua")

local function same(target) return target end
local function inline(text) return markdown.inline(text, same) end

local function run(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read("a")
  return text, (pipe:close()) == true
end

local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read("a")
end

describe("the pages' Markdown", function()
  it("has marks inside of marks, and none in code", function()
    assert.equal("a <strong>b <code>*c*</code></strong> <em>d</em>", inline "a **b `*c*`** *d*")
    assert.equal('<a href="x.md#y">see <code>[1]</code></a>', inline "[see `[1]`](x.md#y)")
    assert.equal("2<sup>-48</sup> &lt; 1 &amp; *", inline "2<sup>-48</sup> < 1 & \\*")
    assert.equal("scatter*, index_* and 2 * 3 * 4", inline "scatter*, index_* and 2 * 3 * 4")
    assert.equal("x[…] and `half", inline "x[…] and `half")
    assert.equal('<img src="a.svg" alt="a picture">', inline "![a `picture`](a.svg)")
  end)

  it("has lists in lists, tables with bars in code, and code as it stands", function()
    local blocks = markdown.parse(table.concat({ "# A `b` title", "", "- one", "  more",
      "  - inner", "- two", "", "| a | b |", "|---|---|", "| `x \\| y` | `p\\|q` |", "",
      "```lua norun", "- no list", "```", "text", "1. first", "2. second" }, "\n"))
    local kinds = {}
    for i, b in ipairs(blocks) do kinds[i] = b.kind .. b.line end
    assert.same({ "heading1", "list3", "table8", "code12", "paragraph15", "list16" }, kinds)
    assert.equal("a-b-title", blocks[1].anchor)
    assert.equal(2, #blocks[2].items)
    assert.equal("one\nmore", blocks[2].items[1][1].text)
    assert.equal("inner", blocks[2].items[1][2].items[1][1].text)
    assert.same({ "`x | y`", "`p|q`" }, blocks[3].rows[1])
    assert.same({ "- no list" }, blocks[4].lines)
    assert.equal("norun", blocks[4].mark)
  end)

  it("gives equal headings different anchors, as GitHub does", function()
    local blocks = markdown.parse("## Same\n## Same\n## Other, `x:y`\n")
    assert.same({ "same", "same-1", "other-xy" },
      { blocks[1].anchor, blocks[2].anchor, blocks[3].anchor })
  end)

  it("gives all targets of links with their lines, but none in code", function()
    local list = markdown.targets(markdown.parse(
      "[a](1)\n\n- **[b](2)**\n  `[c](3)`\n\n| h |\n|---|\n| [d](4) |\n\n```\n[e](5)\n```\n![f](6)\n"))
    local said = {}
    for i, t in ipairs(list) do said[i] = t.line .. t.target .. (t.image and "!" or "") end
    assert.same({ "11", "32", "84", "136!" }, said)
  end)
end)

describe("the pages' code", function()
  it("is coloured, and a kernel in it as C", function()
    local html = highlight("lua", { "local k = flame.kernel [[", "__global__ void f() {} // go",
      "]] -- <end>", "print('a\\'b', 0x1F) --> 1" })
    for _, part in ipairs { '<span class="k">local</span>', '<span class="b">__global__</span>',
      '<span class="c">// go</span>', '<span class="c">-- &lt;end&gt;</span>',
      [[<span class="s">'a\'b'</span>]], '<span class="n">0x1F</span>',
      '<span class="o">--&gt; 1</span>' } do
      assert.truthy(html:find(part, 1, true), part .. " is not in " .. html)
    end
  end)

  it("keeps its text", function()
    for name in run("ls examples/*.lua src/flame.h kernels/*.cu"):gmatch("%S+") do
      local text = read(name)
      local lines = {}
      for line in text:gmatch("(.-)\n") do lines[#lines + 1] = line end
      local word = name:match("%.lua$") and "lua" or "c"
      local back = highlight(word, lines):gsub("<[^>]*>", "")
        :gsub("&(%a+);", { lt = "<", gt = ">", quot = '"', amp = "&" })
      assert.equal(text, back .. "\n", name)
    end
  end)
end)

describe("tools/site", function()
  local folder = os.tmpname()
  os.remove(folder)
  local said, ok = run("tools/site " .. folder)
  teardown(function() os.execute("rm -rf " .. folder) end)

  it("writes every page, with the page before and after it", function()
    assert.is_true(ok, said)
    local before = "index.html"
    for _, part in ipairs(dofile("tools/book/order.lua").read()) do
      for _, entry in ipairs(part) do
        local name = entry.name:gsub("%.md$", ".html")
        local html = read(folder .. "/" .. name)
        assert.truthy(html:find('class="before" href="' .. before .. '"', 1, true), name)
        assert.truthy(html:find('href="' .. name .. '" aria-current="page"', 1, true), name)
        before = name
      end
    end
    assert.truthy(before ~= "index.html")
  end)

  it("needs nothing from elsewhere", function()
    for name in run("ls " .. folder .. "/*.html"):gmatch("%S+") do
      local html = read(name)
      for address in html:gmatch('src="([^"]*)"') do
        assert.is_nil(address:match("^%a+:"), address)
      end
      assert.is_nil(html:match('<link[^>]*href="%a+:'))
    end
  end)

  it("has every section in search.js, as text that JavaScript reads", function()
    local js = read(folder .. "/search.js")
    assert.truthy(js:find('["environment.html","environment","Environment","Environment",', 1, true))
    assert.truthy(js:find('"kernels.html","determinism","Kernels of your own","Determinism"', 1, true))
    assert.is_nil(js:find("</", 1, true))
  end)

  it("refuses a folder that holds something else", function()
    local other = os.tmpname()
    os.remove(other)
    assert(os.execute("mkdir " .. other .. " && echo kept >" .. other .. "/mine"))
    local text, fine = run("tools/site " .. other)
    assert.is_false(fine)
    assert.matches("holds something else than a site", text)
    assert.equal("kept\n", read(other .. "/mine"))
    os.execute("rm -r " .. other)
  end)

  it("tells of links that lead nowhere", function()
    local tree = os.tmpname()
    os.remove(tree)
    local copy = "mkdir %s && cp -r tools docs examples LICENSE README.md %s"
    assert(os.execute(copy:format(tree, tree)))
    local f <close> = assert(io.open(tree .. "/docs/plots.md", "a"))
    f:write("\n[one](guide.md#no-such) [two](nowhere.md) ![three](plots/none.svg)\n")
    f:close()
    local text, fine = run(tree .. "/tools/site")
    os.execute("rm -r " .. tree)
    assert.is_false(fine)
    assert.matches("docs/plots%.md: link to guide%.md#no%-such: no such heading", text)
    assert.matches("docs/plots%.md: link to nowhere%.md, which is not there", text)
    assert.matches("docs/plots%.md: link to plots/none%.svg, which is not there", text)
  end)
end)
