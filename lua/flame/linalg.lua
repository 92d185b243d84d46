--- require "flame.linalg" returns the table flame.linalg, which the files in linalg/ fill.
return require("flame").linalg
