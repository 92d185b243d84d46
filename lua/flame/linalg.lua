--- require "flame.linalg": the table flame.linalg (linalg/solve.lua, linalg/norm.lua).
return require("flame").linalg
