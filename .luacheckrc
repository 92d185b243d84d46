std = "lua54"
max_line_length = 140
ignore = { "581" }         -- "not (x <= y)" is how NaN is caught
self = false
files["spec"] = { std = "+busted", globals = { "assert" } }
files["spec/**/*_spec.lua"] = { std = "lua54+busted", globals = { "assert", "flame" } }
files["examples"] = { read_globals = { "flame" } }
files["bench"] = { read_globals = { "flame" } }
