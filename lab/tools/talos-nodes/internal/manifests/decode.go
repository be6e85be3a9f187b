package manifests

import (
	"encoding/json"

	"gopkg.in/yaml.v3"
)

// decode reads YAML into what JSON would give.
func decode(text string, into *map[string]any) error {
	var made any

	if err := yaml.Unmarshal([]byte(text), &made); err != nil {
		return err
	}

	data, err := json.Marshal(made)
	if err != nil {
		return err
	}

	return json.Unmarshal(data, into)
}
