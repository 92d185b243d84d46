--- require "flame.linalg": the table flame.linalg (core_linalg.lua, core_vector.lua).
return require("flame").linalg
