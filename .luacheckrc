std = "lua54"
max_line_length = false            -- tools/width.lua
ignore = { "581" }         -- "not (x <= y)" is how NaN is caught
self = false
exclude_files = { "lua/meta", ".carry" }       -- generated, for editors; what is carried to a GPU
files["spec"] = { std = "+busted", globals = { "assert" } }
-- 231, 311, 331: specs overwrite handles to let the collector have them
files["spec/**/*_spec.lua"] = { std = "lua54+busted", globals = { "assert", "flame" }, ignore = { "231", "241", "311", "331" } }
files["spec/peer"] = { read_globals = { "flame" } }
files["examples"] = { read_globals = { "flame" } }
files["bench"] = { read_globals = { "flame" } }
