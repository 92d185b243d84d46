-- The program that runs this spec, for specs that start it again: the leftmost of its arguments.
local i = 0
while arg[i - 1] do i = i - 1 end
return arg[i]
