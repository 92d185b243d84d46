--- What is recorded, as text.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local def = arguments.def

--- The recorded work on which x depends, one op per line, inputs first; {format = "dot"}: Graphviz.
--- On a GPU a last line says how often the evaluation that x is a part of has run, how many of
--- these runs were CUDA graphs and, where they are not, why.
def('.graph(x: T, format: "text"|"dot" = "text") -> str', function(x, format)
  local lines = {}
  for i, n in ipairs(internal.graph(x)) do
    local ins = {}
    for k, j in ipairs(n.inputs) do ins[k] = "%" .. j end
    local facts = ("%s (%s) %s%s"):format(n.op, table.concat(n.shape, ", "), n.dtype,
      n.site ~= "" and " " .. n.site or "")
    if format == "text" then
      lines[i] = ("%%%d = %s%s  (%s) %s %s%s"):format(i, n.op,
        #ins > 0 and " " .. table.concat(ins, " ") or "",
        table.concat(n.shape, ", "), n.dtype, n.state, n.site ~= "" and "  " .. n.site or "")
    else
      lines[#lines + 1] = ('  n%d [label="%s"];'):format(i, facts:gsub('["\\]', "\\%0"))
      for _, j in ipairs(n.inputs) do lines[#lines + 1] = ("  n%d -> n%d;"):format(j, i) end
    end
  end
  if format == "dot" then return "digraph flame {\n" .. table.concat(lines, "\n") .. "\n}\n" end
  local runs, replays, why = internal.replay(x)
  if runs then
    lines[#lines + 1] = ("runs %d, as graphs %d%s%s"):format(runs, replays,
      why ~= "" and "; " or "", why)
  end
  return table.concat(lines, "\n")
end)
