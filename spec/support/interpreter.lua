-- The program that runs this spec, for specs that start others: what stands
-- leftmost among its arguments.
local i = 0
while arg[i - 1] do i = i - 1 end
return arg[i]
