--- flame.generate: its declaration. The work is done in models/generate.lua.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local def = arguments.def

--- Generates tokens after ids with a model of flame.models, up to a stop or max_new_tokens of them.
-- ids: a text (with a tokenizer), a list or tensor of ids from 0, or several of these, of different
-- lengths; or (batch, time) with its attention_mask. Returns for each the new text, or the new ids
-- without the stop. temperature 0 takes the likeliest token; otherwise tokens are drawn: from the
-- top_k likeliest, from the likeliest with a total probability of top_p, from those with at least
-- min_p times the probability of the likeliest. repetition_penalty above 1 lowers the scores of
-- tokens before. stop: ids and words, by default the configuration's eos_token_id. stream(piece,
-- i) gets each piece of text, or id, of sequence i; if it returns false, all sequences end. seed:
-- the call uses its own random generator. cache = false computes everything again for each token.
def([[.generate(model: any, ids: any, max_new_tokens: int = 64, *, temperature = 0, top_k?: int,
  top_p?: num, min_p?: num, repetition_penalty = 1, stop?: any, tokenizer?: any, stream?: fn,
  seed?: int, attention_mask?: T, cache = true) -> any]],
  function(model, ids, most, temperature, top_k, top_p, min_p, penalty, stop, tokenizer, stream,
    seed, mask, cache)
    require "flame.models"
    return internal.generate(model, ids, { max_new_tokens = most, temperature = temperature,
      top_k = top_k, top_p = top_p, min_p = min_p, repetition_penalty = penalty, stop = stop,
      tokenizer = tokenizer, stream = stream, seed = seed, attention_mask = mask, cache = cache })
  end)
