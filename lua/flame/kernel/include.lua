--- The files that the text of a kernel includes, from the folders that the script names.
local internal = require("flame").internal

local MOST_FILES <const>, MOST_BYTES <const> = 256, 1 << 22

-- A path without "." and "..", as far as its words tell.
local function plain(path)
  local parts = {}
  for part in path:gmatch("[^/]+") do
    if part == ".." and #parts > 0 and parts[#parts] ~= ".." then parts[#parts] = nil
    elseif part ~= "." then parts[#parts + 1] = part end
  end
  return (path:sub(1, 1) == "/" and "/" or "") .. table.concat(parts, "/")
end

local function is_inside(path, folders)
  for _, folder in ipairs(folders) do
    local up = path == ".." or path:sub(1, 3) == "../"
    if folder == "" and path:sub(1, 1) ~= "/" and not up then return true end
    if path:sub(1, #folder + 1) == folder .. "/" or (folder == "/" and path:sub(1, 1) == "/") then
      return true
    end
  end
  return false
end

-- The path and the text of a file that a file of folder 'near' (nil: the kernel's text) includes
-- as 'name': near it first, then in the folders. nil: it is in none of them.
local function find(texts, name, near, folders)
  local tries = { near and near .. name }
  for _, folder in ipairs(folders) do
    tries[#tries + 1] = (folder == "" or folder == "/") and folder .. name or folder .. "/" .. name
  end
  for _, try in ipairs(tries) do
    local path = plain(try)
    if name:sub(1, 1) ~= "/" and is_inside(path, folders) then
      if texts[path] == nil then
        local ok, text = pcall(internal.io_read, path, "kernel")
        texts[path] = ok and text
      end
      if texts[path] then return path, texts[path] end
    end
  end
end

-- The files that 'source' and what it includes may include, whatever their #ifs say, as a list of
-- {number of the including file (0: the source), name, number of the file, its text} for
-- kernel_new. Headers of the toolkit are left out. nil: the script names no folders, or there are
-- more than MOST_FILES or MOST_BYTES; a GPU's compiler finds them by itself.
local function files_of(source, include)
  local folders, texts, numbers = {}, {}, {}
  for i, folder in ipairs(include or {}) do folders[i] = plain(folder) end
  if #folders == 0 then return nil end
  local queue, list, bytes = { { number = 0, text = source } }, {}, 0
  for _, of in ipairs(queue) do
    for name in of.text:gmatch('#[ \t]*include[ \t]*["<]([^">\n]+)[">]') do
      local path, text
      if not internal.kernel_header(name) then path, text = find(texts, name, of.near, folders) end
      if path and not numbers[path] then
        numbers[path], bytes = #queue, bytes + #text
        if #queue > MOST_FILES or bytes > MOST_BYTES then return nil end
        queue[#queue + 1] = { number = #queue, text = text, near = path:match("^.*/") or "" }
      end
      if path then list[#list + 1] = { of.number, name, numbers[path], text } end
    end
  end
  return list
end

return files_of
