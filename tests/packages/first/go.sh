# SPDX-License-Identifier: MIT OR Apache-2.0
# Go: what a new user types, in an empty folder with the program.
go mod init example.org/first
go mod tidy
go run .
