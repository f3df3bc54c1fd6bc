// SPDX-License-Identifier: MIT OR Apache-2.0

// Prints the reference of a Go package as a page of the site:
//
//	go run docs/site/go_page.go FOLDER IMPORT_PATH
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"strings"
)

type page struct {
	pkg   *doc.Package
	files *token.FileSet
}

// heading has the name that links in comments lead to.
func (p *page) heading(level, title, anchor string) {
	fmt.Printf("\n%s %s { #%s }\n", level, title, anchor)
}

// declaration shows a declaration as gofmt writes it, and its text.
func (p *page) declaration(node ast.Node, text string) {
	var code bytes.Buffer
	if err := format.Node(&code, p.files, node); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\n```go\n%s\n```\n\n%s", code.String(), p.text(text))
}

func (p *page) text(text string) string {
	printer := p.pkg.Printer()
	printer.HeadingLevel = 4
	printer.DocLinkURL = func(link *comment.DocLink) string {
		if link.ImportPath != "" {
			return link.DefaultURL("https://pkg.go.dev/")
		}
		return "#" + strings.TrimPrefix(link.Recv+"."+link.Name, ".")
	}
	return string(printer.Markdown(p.pkg.Parser().Parse(text)))
}

func (p *page) values(values []*doc.Value) {
	for _, value := range values {
		p.declaration(value.Decl, value.Doc)
	}
}

func (p *page) functions(level string, functions []*doc.Func) {
	for _, function := range functions {
		receiver := strings.TrimPrefix(function.Recv, "*")
		p.heading(level, "func "+function.Name, strings.TrimPrefix(receiver+"."+function.Name, "."))
		function.Decl.Body = nil
		p.declaration(function.Decl, function.Doc)
	}
}

func sources(folder string) (*token.FileSet, []*ast.File) {
	files, syntax := token.NewFileSet(), []*ast.File{}
	paths, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			log.Fatal(err)
		}
		syntax = append(syntax, file)
	}
	return files, syntax
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("go_page.go FOLDER IMPORT_PATH")
	}
	files, syntax := sources(os.Args[1])
	pkg, err := doc.NewFromFiles(files, syntax, os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	p := &page{pkg, files}
	fmt.Printf("# Go: package %s\n\n```go\nimport %q\n```\n\n%s", pkg.Name, pkg.ImportPath, p.text(pkg.Doc))
	for _, group := range [][]*doc.Value{pkg.Consts, pkg.Vars} {
		p.values(group)
	}
	p.functions("##", pkg.Funcs)
	for _, kind := range pkg.Types {
		p.heading("##", "type "+kind.Name, kind.Name)
		p.declaration(kind.Decl, kind.Doc)
		p.values(kind.Consts)
		p.values(kind.Vars)
		p.functions("###", kind.Funcs)
		p.functions("###", kind.Methods)
	}
}
