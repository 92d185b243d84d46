--- Files as datasets: folders of images, token files of any size. The file returns a function that
--- adds them to flame.data.
local flame = require "flame"
local internal = flame.internal
local items = require "flame.data.items"

return function(data, shared)
  local fail, put = shared.fail, shared.put

  -- ---- token files ------------------------------------------------------------------------------
  local function whole(path, dtype, header)
    local kind = items.token_kinds[dtype]
    local bytes = internal.io_read(path, "tokens", header)
    if #bytes % kind[2] ~= 0 then
      fail("tokens", "%s: %d bytes after the header are not a multiple of %s", path, #bytes, dtype)
    end
    local x = flame.from_bytes(bytes, { #bytes // kind[2] }, kind[1])
    if dtype == "u32" and x:numel() > 0 and x:amin():item() < 0 then
      fail("tokens", "%s: an id beyond 2^31", path)
    end
    return kind[3](x)
  end

  --- A dataset recipe (data/items.lua) for blocks of ids in a file; reads only the file's size.
  local function blocks(path, dtype, header, block, step)
    local size = items.token_kinds[dtype][2]
    if block < 1 then fail("tokens", "block must be a positive integer, got %d", block) end
    if step < 1 then fail("tokens", "step must be a positive integer, got %d", step) end
    local _, bytes = internal.io_open_at(path, "tokens")
    if bytes < header then
      fail("tokens", "%s: ends %d bytes before the %d bytes of its header do", path, header - bytes,
        header)
    elseif (bytes - header) % size ~= 0 then
      fail("tokens", "%s: %d bytes after the header are not a multiple of %s", path,
        bytes - header, dtype)
    end
    local count = (bytes - header) // size
    if count <= block then
      fail("tokens", "%s: %d tokens, a block of %d needs %d", path, count, block, block + 1)
    end
    return { kind = "tokens", path = path, dtype = dtype, header = header, block = block,
      step = step, n = (count - 1 - block) // step + 1 }
  end

  --- A file of token ids, little-endian, as i32; the numbers come unchanged, except that those of
  --- u32 from 2^31 on are negative. The first 'header' bytes are skipped. With 'block' the result
  --- is a dataset, which reads only the items that are requested: an item is 'block' ids and, as
  --- its second part, the ids one position later; items begin 'step' ids apart.
  put(data, [[data.tokens(path: str, *, dtype: "u8"|"u16"|"i32"|"u32" = "u16", header: int = 0,
    block?: int, step: int = block) -> T|Dataset]], function(path, dtype, header, block, step)
    if header < 0 then fail("tokens", "header must be a number of bytes, got %d", header) end
    if not block then return whole(path, dtype, header) end
    return shared.dataset_of(blocks(path, dtype, header, block, step))
  end)

  -- ---- folders of images ------------------------------------------------------------------------
  local function sorted(folder, wanted)
    local found, why = internal.io_list(folder)
    if not found then fail("images", "%s: %s", folder, why) end
    local names = {}
    for name in pairs(found) do
      if name:sub(1, 1) ~= "." and wanted(name, folder .. "/" .. name) then
        names[#names + 1] = name
      end
    end
    table.sort(names)
    return names
  end

  local function need_png(path)
    if internal.io_read(path, "images", 0, 4) ~= "\x89PNG" then
      fail("images", "%s: is not a PNG file", path)
    end
    return true
  end

  --- Images in folders, a folder for each class: an item is the image, f32 from 0 to 1,
  --- (channels, h, w), and its class from 1, in the order of the folders' names, which the
  --- field 'classes' lists. Every file must be a PNG; names that begin with a dot are left out.
  --- channels = 3 converts all images to colour, 1 to grey, both without alpha.
  put(data, "data.images(folder: str, *, channels?: int) -> Dataset", function(folder, channels)
    if channels and channels ~= 1 and channels ~= 3 then
      fail("images", "channels is %d, need 1 or 3", channels)
    end
    local classes = sorted(folder, function(_, path) return internal.io_list(path) ~= nil end)
    if #classes == 0 then
      fail("images", "%s: no folders in it\1: make one for each class", folder)
    end
    local paths, ids = {}, {}
    for id, class in ipairs(classes) do
      local files = sorted(folder .. "/" .. class,
        function(_, path) return internal.io_list(path) == nil and need_png(path) end)
      for _, file in ipairs(files) do
        paths[#paths + 1], ids[#ids + 1] = ("%s/%s/%s"):format(folder, class, file), id
      end
    end
    if #paths == 0 then fail("images", "%s: its folders have no images", folder) end
    local made = shared.dataset_of { kind = "images", n = #paths, paths = paths, ids = ids,
      channels = channels }
    rawset(made, "classes", classes)
    return made
  end)
end
