--- Measures candidates in turns. dofile "bench/turns.lua"(rounds, width) gives compare(title,
--- candidates), for a list of { name =, f = }, which prints a line of medians of 'rounds' samples
--- in microseconds, and ratios to the first candidate; 'width': of the titles. A sample is many
--- calls in a row, so that the device is always busy and its time is measured, not the latency of
--- a call.
local flame = require "flame"

--- The seconds of a call of f, the mean of 'calls' calls in a row.
local function seconds(f, calls)
  flame.synchronize()
  local t = flame.timer()
  for _ = 1, calls do flame.eval(f()) end
  flame.synchronize()
  return t() / calls
end

return function(rounds, width)
  return function(title, candidates)
    local times, line = {}, {}
    for i, c in ipairs(candidates) do
      times[i] = {}
      seconds(c.f, 3)
      c.calls = rounds == 1 and 1 or math.max(1, math.min(100, math.ceil(4e-3 / seconds(c.f, 3))))
    end
    for r = 1, rounds do
      for i, c in ipairs(candidates) do times[i][r] = seconds(c.f, c.calls) end
    end
    for i, c in ipairs(candidates) do
      table.sort(times[i])
      c.median = times[i][rounds // 2 + 1]
      line[i] = ("%s %.0f us (%.2f)"):format(c.name, c.median * 1e6,
        c.median / candidates[1].median)
    end
    print(("%-" .. width .. "s %s"):format(title, table.concat(line, ", ")))
  end
end
