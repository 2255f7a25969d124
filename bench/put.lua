-- For wrk: uploads, downloads and deletions. Arguments: the method, the start of the path, the token, and perhaps which names follow
-- ("new", each once; "numbers", from 1 on; or how many names take turns), the size of the body, and the number before the first.
local method, start, token, names, body
local number = 0
local began = os.time()

function init(arguments)
  method, start, token = arguments[1], arguments[2], arguments[3]
  names = arguments[4] or "new"
  number = tonumber(arguments[6] or "0")
  if method ~= "DELETE" and method ~= "GET" then
    body = string.rep("0123456789abcdef", tonumber(arguments[5] or "10240") / 16)
  end
end

function request()
  number = number + 1
  local name = number
  if names == "new" then
    name = began .. "-" .. number
  elseif names ~= "numbers" then
    name = number % tonumber(names)
  end
  return wrk.format(method, start .. name, { Authorization = "Bearer " .. token }, body)
end
