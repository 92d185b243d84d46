--- Likely mistakes in losses and optimiser steps, reported once per line of the script
--- (src/lua/slip.c). Each is reported only if no correct program does the same;
--- spec/nn/slips_spec.lua has correct programs that are similar.
local internal = require("flame").internal
local slips = {}

local function is_column_of(x, y)
  return x.ndim == 2 and y.ndim == 1 and x.shape[2] == 1 and y.shape[1] > 1
    and x.shape[1] == y.shape[1] and not internal.is_view(x)
end

--- Reports an input of shape (n, 1) with a target of (n), or the reverse: broadcasting would
--- compare all pairs. It counts as intended if the column was made as a view, x:unsqueeze(2), or if
--- nothing is reduced.
function slips.pairs(op, input, target, reduction)
  if input.ndim == target.ndim or reduction == "none" or not input.requires_grad then return end
  if is_column_of(input, target) or is_column_of(target, input) then
    internal.slip(("%s: input has shape %s and target %s, so all pairs are compared; write %s"):format(
      op, input.shape, target.shape,
      input.ndim == 2 and "input:squeeze(2)" or "target:squeeze(2)"))
  end
end

local used = 0                           -- number of steps, of all optimisers, with a gradient
local optimisers = 0

--- A new optimiser's state for these checks: its number, and counters as of its last step.
function slips.steps_of()
  local walks, reads = internal.walks()
  optimisers = optimisers + 1
  return { number = optimisers, walks = walks, reads = reads, used = used, idle = 0, lost = 0 }
end

--- Called by each step of an optimiser; found: did a parameter have a gradient? Reports two steps
--- in a row without a gradient, each after a backward, if no other optimiser's step had one in
--- between; or three such steps if no backward ever ran and a tracked value was read before each.
function slips.empty(self, found)
  local walks, reads = internal.walks()
  local was = self.seen
  if found then used = used + 1 end
  if found or was.used ~= used then was.idle, was.lost = 0, 0
  elseif walks > was.walks then was.idle = was.idle + 1
  elseif walks == 0 and reads > was.reads then was.lost = was.lost + 1 end
  was.walks, was.reads, was.used = walks, reads, used
  if was.idle < 2 and was.lost < 3 then return end
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      if p.requires_grad then
        return internal.slip(was.idle >= 2 and
          "step: no parameter has a gradient, though a backward ran; call zero_grad() before backward, not after it"
          or "step: no parameter has a gradient; call loss:backward() before it")
      end
    end
  end
end

--- Called by an optimiser's step: reports that backward added to a gradient that a step had used.
function slips.added()
  internal.slip(
    "step: a backward has added to gradients that the step before used; call opt:zero_grad() before backward")
end

return slips
