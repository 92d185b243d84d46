--- Declarations of modules, methods and functions of flame.nn, for the files that are written in
-- them. Given the table of flame.nn, adds to what its parts share.
local flame = require "flame"

return function(nn, shared)
  local declare = flame.internal.declare
  --- Raises "op: message" at the script's line.
  function shared.raise(op, message, ...) flame.internal.fail(op, message:format(...)) end
  function shared.count(op, name, n)
    if n < 1 then shared.raise(op, "%s is %d, need a positive integer", name, n) end
  end
  --- "scope name(params)" with the object, which the text does not name, as its first parameter.
  local function with_self(text)
    local head, rest = text:match("^([^(]*)%(%s*(.*)$")
    return head .. "(self: Module" .. (rest:find "^%)" and "" or ", ") .. rest
  end
  --- A class: the declaration of its constructor, which gets the module before its parameters.
  function shared.class(text, init, parent)
    local name = text:match("([%w_]+)%(")
    local made = nn.Module.extend(name, parent)
    made.init = declare(with_self((text:gsub("^nn%.", ""))), "", init)
    nn[name] = made
    return made
  end
  --- The parameters and results of a call of a class.
  function shared.call(made, text, f)
    made.forward = declare(with_self(made.__name .. text), "", f)
  end
  --- A method, or a function of a table.
  function shared.put(t, text, f)
    local name = text:match("([%w_]+)%(")
    text = text:gsub("%-> table$", "-> any"):gsub(": table", ": any")
    t[name] = declare(text:find("^%w+:") and with_self(text) or text, "", f)
  end
end
