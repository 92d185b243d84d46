--- Reverse mode in plain Lua: node k has a value and up to two parents, each with a derivative.
local value, left, d_left, right, d_right, nodes = {}, {}, {}, {}, {}, 0
local MOST <const> = 120000

local function node(v, a, da, b, db)
  if nodes >= MOST then error("too large", 0) end
  nodes = nodes + 1
  value[nodes], left[nodes], d_left[nodes], right[nodes], d_right[nodes] = v, a, da, b, db
  return nodes
end

local function leaf(v) return node(v, 0, 0, 0, 0) end
local function plus(a, b, sign) return node(value[a] + sign * value[b], a, 1, b, sign) end
local function times(a, b) return node(value[a] * value[b], a, value[b], b, value[a]) end
local function scaled(a, c) return node(value[a] * c, a, c, 0, 0) end

--- The adjoint of each node, and the sum of the sizes of what was added to it. seeds: by node.
local function adjoints(seeds)
  local adj, size = {}, {}
  for k = 0, nodes do adj[k], size[k] = seeds[k] or 0, math.abs(seeds[k] or 0) end
  for k = nodes, 1, -1 do
    local a, b, da, db = left[k], right[k], d_left[k], d_right[k]
    adj[a], size[a] = adj[a] + da * adj[k], size[a] + math.abs(da) * size[k]
    adj[b], size[b] = adj[b] + db * adj[k], size[b] + math.abs(db) * size[k]
  end
  return adj, size
end

local function clear() nodes = 0 end

return { value = value, leaf = leaf, plus = plus, times = times, scaled = scaled,
  adjoints = adjoints, clear = clear }
