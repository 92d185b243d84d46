-- The path of the flame-lua that runs this spec, for specs that start it again.
local i = 0
while arg[i - 1] do i = i - 1 end
return arg[i]
