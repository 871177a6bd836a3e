autocmd BufRead,BufNewFile *.ir setfiletype irc
