-- Makes a folder for the files of a spec: its name; path(file), write(file, text), which returns
-- the path, read(file); quote(text) for a shell; listing(), the files' names; remove().
return function()
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir -p '" .. folder .. "'"))
  local function path(name) return folder .. "/" .. name end
  local o = { name = folder, path = path }
  function o.write(name, text)
    local f = assert(io.open(path(name), "wb"))
    f:write(text)
    f:close()
    return path(name)
  end
  function o.read(name)
    local f = assert(io.open(path(name), "rb"))
    local text = f:read("a")
    f:close()
    return text
  end
  function o.quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end
  function o.listing()
    local pipe = assert(io.popen("ls -A '" .. folder .. "'"))
    local names = pipe:read("a")
    pipe:close()
    return names
  end
  function o.remove() os.execute("rm -rf '" .. folder .. "'") end
  return o
end
