-- Runs busted in whatever interpreter runs this file (the busted command takes /usr/bin/lua).
require "busted.runner"({ standalone = false })
