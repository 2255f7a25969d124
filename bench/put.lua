-- For wrk: uploads of 10 KiB, each under a new name, since a gateway may keep what is replaced.
-- Arguments: the method, the start of the path, the token.
local method, start, token
local number = 0
local began = os.time()
local body = string.rep("0123456789", 1024)

function init(arguments)
  method, start, token = arguments[1], arguments[2], arguments[3]
end

function request()
  number = number + 1
  return wrk.format(method, start .. began .. "-" .. number, { Authorization = "Bearer " .. token }, body)
end
