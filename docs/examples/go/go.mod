module example.com/rewoundtest

go 1.21
